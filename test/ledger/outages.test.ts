import { afterEach, beforeAll, expect, test, vi } from 'vitest'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld } from './ledger-world.ts'

const world = useLedgerWorld()

// Inserts of usage rows fail with the code in this table, as on a PostgreSQL with a full disk.
beforeAll(async () => {
  await world.pool.query(`
    CREATE TABLE fault (code text NOT NULL);
    CREATE FUNCTION fail_as_planned() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE v_code text := (SELECT code FROM fault);
    BEGIN
      IF v_code IS NOT NULL THEN RAISE EXCEPTION 'planned' USING ERRCODE = v_code; END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER fail_as_planned BEFORE INSERT ON usage_event FOR EACH STATEMENT EXECUTE FUNCTION fail_as_planned()`)
})
afterEach(() => world.pool.query('TRUNCATE fault'))

test.each([
  ['53100', 'out of disk'],
  ['53200', 'out of memory'],
  ['53300', 'too many connections'],
  ['58030', 'disk I/O error'],
  ['25006', 'read-only'],
  ['57P01', 'shutdown'],
  ['XX001', 'damaged data'],
])('an outage of PostgreSQL loses no charge: %s, %s', async code => {
  const log = { warn: vi.fn(), error: vi.fn() }
  const { ledger } = await world.addNode({ log })
  const customerId = await world.addCustomer(1_000n)
  const admissions = [admissionOf(customerId, 100n), admissionOf(customerId, 100n)]
  for (const admission of admissions) await ledger.admit(admission)
  await world.pool.query('INSERT INTO fault VALUES ($1)', [code])
  const settled = Promise.all(admissions.map(admission => settle(ledger, settlementOf(admission, 100n, 70n))))
  await vi.waitFor(() => expect(log.warn).toHaveBeenCalledTimes(2), WAIT_OPTIONS)
  expect(ledger.pending.settlements).toBe(2)
  await world.pool.query('TRUNCATE fault')
  await settled
  expect(log.error).not.toHaveBeenCalled()
  const { rows } = await world.pool.query('SELECT cost_nanos FROM usage_event WHERE customer_id = $1', [customerId])
  expect(rows).toEqual([{ cost_nanos: 70n }, { cost_nanos: 70n }])
  expect(await world.violations()).toEqual([])
})
