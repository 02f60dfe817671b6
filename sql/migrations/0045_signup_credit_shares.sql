-- One hundred sign-ups from one provider's addresses took the signup credit of a day from everybody else. Now a region of the address space has a
-- share of the day, and a new account in the browser of another one gets none.

ALTER TABLE signup_credit
  -- The first 16 bits of an IPv4 address, 32 of an IPv6 address. NULL: given before this migration.
  ADD COLUMN region text;
