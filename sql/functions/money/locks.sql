-- How functions lock that change balances, leases, spend, the ledger or usage. Two rules make them correct.
--
-- 1. A function that moves money of customers first locks their balance rows, in the order of customer_id, so
--    two calls never deadlock, and calls for one customer run one after the other. Settlements of bulk leases
--    are the only exception: they lock leases, in the order of lease_id. Every function that changes several
--    bulk leases locks them in that order, after the balance rows.
-- 2. A statement that reads comes after the statement that locks. Under READ COMMITTED it then sees
--    everything that the previous holder of the lock committed. A statement that locks and also reads by
--    joins or subqueries would check only the locked row again after the wait, and see the other rows as they
--    were before it. Functions called here are therefore VOLATILE, so that each of their statements sees what
--    was committed before it, except where they read only rows that are locked by then.
--
-- A batch comes as one array per column, or as an array of rows. Query plans are made when the tables are small and kept when
-- they have grown, so these functions rule out bad plans: sequential scans are off, and a table is joined only after "= ANY" has
-- reduced it to the keys of the batch. PostgreSQL may plan a plain join as a walk over a whole index, which took 50 ms per batch
-- with 100,000 dead rows in `lease`. Settings apply to the functions that a function calls. A statement without any other way
-- than to read the whole table then costs 1e10 in PostgreSQL 14 to 17. With `jit`, which is on by default, that is far above the
-- cost from which each run of the statement is compiled, for 400 ms. Switchyard's sessions switch `jit` off; these statements get
-- a proper plan as well.
--
-- Parameters of money are nano-USD unless their name says otherwise.
--
-- The comment of each function names, in this order, what it locks until its transaction ends, itself or by the functions that it
-- calls, and the errors that it raises. "The audit log" is the lock of add_audit_entry. Rows that a function writes while these
-- locks keep others from them are not named. A function with `SET lock_timeout` also raises lock_not_available (55P03) when it
-- waits for a lock any longer.

-- Locks the balances of these customers. Every function that locks several balances does so here: in the order of customer_id.
CREATE OR REPLACE FUNCTION lock_balances(p_customers uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM balance WHERE customer_id = ANY (p_customers) ORDER BY customer_id FOR NO KEY UPDATE;
END $$;

-- Locks the row of the node, so that it cannot be declared dead before this transaction ends, and no lease of a node is granted
-- after its death. Returns how many nodes are not declared dead. Raises SY001 when this one is.
CREATE OR REPLACE FUNCTION lock_live_node(p_node uuid) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM node WHERE node_id = p_node AND state = 'alive' FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'node % is not alive', p_node USING ERRCODE = 'SY001';
  END IF;
  RETURN (SELECT count(*) FROM node WHERE state = 'alive');
END $$;

-- Locks what these requests need and no other session has locked: the balances of strict leases, and bulk leases. Returns the
-- requests for which another session has the lock.
CREATE OR REPLACE FUNCTION try_lock_requests(p_asked settlement_asked[]) RETURNS uuid[]
LANGUAGE plpgsql AS $$
DECLARE
  v_customers uuid[] := ARRAY(SELECT DISTINCT customer FROM unnest(p_asked) WHERE lease = request);
  v_leases uuid[] := ARRAY(SELECT DISTINCT lease FROM unnest(p_asked) WHERE lease <> request);
  v_locked uuid[];
  v_locked_leases uuid[];
BEGIN
  v_locked := try_lock_balances(v_customers);
  v_locked_leases := ARRAY(SELECT l.lease_id FROM lease l WHERE l.lease_id = ANY (v_leases) FOR NO KEY UPDATE SKIP LOCKED);
  -- What does not exist is not locked.
  v_customers := ARRAY(SELECT b.customer_id FROM balance b WHERE b.customer_id = ANY (v_customers) AND b.customer_id <> ALL (v_locked));
  v_leases := ARRAY(SELECT l.lease_id FROM lease l WHERE l.lease_id = ANY (v_leases) AND l.lease_id <> ALL (v_locked_leases));
  RETURN ARRAY(
    SELECT request FROM unnest(p_asked)
    WHERE CASE WHEN lease = request THEN customer = ANY (v_customers) ELSE lease = ANY (v_leases) END);
END $$;

-- Locks those of these balances that no other session has locked. Returns their customers. Does not wait, so the order does not
-- matter.
CREATE OR REPLACE FUNCTION try_lock_balances(p_customers uuid[]) RETURNS uuid[]
LANGUAGE plpgsql AS $$
DECLARE
  v_customers uuid[];
BEGIN
  WITH locked AS (
    SELECT customer_id FROM balance WHERE customer_id = ANY (p_customers) FOR NO KEY UPDATE SKIP LOCKED
  )
  SELECT coalesce(array_agg(customer_id), '{}') INTO v_customers FROM locked;
  RETURN v_customers;
END $$;

-- Locks the bulk leases that these requests are charged to, in the order of lease_id. Returns the leases that exist.
CREATE OR REPLACE FUNCTION lock_bulk_leases(p_asked settlement_asked[]) RETURNS lease[]
LANGUAGE plpgsql AS $$
DECLARE
  v_leases uuid[] := ARRAY(SELECT DISTINCT lease FROM unnest(p_asked) WHERE lease <> request);
BEGIN
  IF cardinality(v_leases) = 0 THEN
    RETURN '{}';
  END IF;
  PERFORM 1 FROM lease WHERE lease_id = ANY (v_leases) ORDER BY lease_id FOR NO KEY UPDATE;
  RETURN ARRAY(SELECT l FROM lease l WHERE l.lease_id = ANY (v_leases) AND l.slots IS NOT NULL);
END $$;
