package wire

// The SQLSTATEs that leaderrun tells apart, from appendix A of PostgreSQL's manual.
const (
	readOnlyTransaction = "25006"

	UndefinedTable       = "42P01"
	UndefinedColumn      = "42703"
	UndefinedFunction    = "42883" // also an operator, of types that do not fit
	DatatypeMismatch     = "42804"
	UndefinedSchema      = "3F000"
	UndefinedDatabase    = "3D000"
	DuplicateTable       = "42P07"
	DuplicateObject      = "42710"
	UniqueViolation      = "23505"
	InsufficientRights   = "42501"
	SerializationFailure = "40001"
	Deadlock             = "40P01"
	WrongObjectType      = "42809"
	NoConflictTarget     = "42P10" // ON CONFLICT of a table without that key
	AuthenticationClass  = "28"
	DataClass            = "22"
)
