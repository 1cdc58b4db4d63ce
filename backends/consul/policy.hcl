# All that leaderrun needs, for the default prefix.
key_prefix "leaderrun/" {
  policy = "write"
}

# Sessions belong to the nodes of the agents that hosts talk to: name those, or all.
session_prefix "" {
  policy = "write"
}
