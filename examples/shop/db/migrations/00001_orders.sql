-- +goose Up
CREATE TABLE orders (
    id text PRIMARY KEY,
    address text NOT NULL
);

-- +goose Down
DROP TABLE orders;
