package sqltext

// NewID is an expression for a new UUID version 7: 48 bits of time in milliseconds, rounded down, so that no id is of
// the future, and 74 random ones. PostgreSQL has a function for it from version 18 on.
const NewID = `encode(overlay(set_bit(set_bit(uuid_send(gen_random_uuid()), 52, 1), 53, 1)
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        'hex')::uuid`
