-- Two roles. One owns the tables and migrates them. The other one, the gateway role, serves requests and owns
-- none of these tables: it can read the money and change it only through functions, which hold, charge and
-- give holds back. An SQL injection, or a bug in a statement, can therefore not add credit, nor rewrite a balance, a
-- charge or a ledger entry. When one role does both
-- jobs, grant_gateway_rights is not called, and the functions run with the rights of their caller.

-- The role that grant_gateway_rights was called for. That role itself may only read it.
CREATE TABLE gateway_role (
  name name PRIMARY KEY
);
