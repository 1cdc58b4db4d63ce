// A module of its own, so that the product does not ship it.
module github.com/leaderrun/leaderrun/tools/testsum

go 1.26.0
