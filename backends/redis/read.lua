-- read.lua shows what there is.
return state()
