-- expect files: no statement of the library
-- nosuch: what no statement of the contract is called.
-- statement
SELECT 1;
