import { expect, test } from 'vitest'
import { keptElsewhere, sealedPlaces } from '../../src/base/secrets/sealed-places.ts'
import { secretPurposes } from '../../src/base/secrets/sealed-secret.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const db = useTestDatabase()

/** Columns of bytes that no master key has sealed, with what they are. A new one belongs here, or into sealed-places.ts. */
const notSealed: Readonly<Record<string, string>> = {
  'api_key.former_key_hash': 'SHA-256',
  'api_key.key_hash': 'SHA-256',
  'audit_entry.address_proof': 'SHA-256',
  'audit_entry.address_salt': 'random bytes of that hash',
  'audit_entry.hash': 'SHA-256',
  'cell_key.key_hash': 'SHA-256',
  'credit_evidence.mac': 'an HMAC: renew-evidence.ts signs it again',
  'hoster_key.key_hash': 'SHA-256',
  'idempotency.body_hash': 'SHA-256',
  'operator_answer.answer': 'sealed with the key of the operator',
  'operator_answer.fingerprint': 'SHA-256',
  'operator_key.key_hash': 'SHA-256',
  'person_device.device_hash': 'SHA-256',
  'person_passkey.public_key': 'a public key',
  'person_recovery_code.code_hash': 'SHA-256',
  'person_session.previous_token_hash': 'SHA-256',
  'person_session.token_hash': 'SHA-256',
  'person_token.token_hash': 'SHA-256',
  'signup_credit.mailbox_hash': 'SHA-256',
  'voucher.code_hash': 'SHA-256',
  'voucher.mac': 'an HMAC: renew-evidence.ts signs it again',
}

test('each column of bytes is sealed again after a rotation, or has the reason why not', async () => {
  const { rows } = await db.pool.query<{ name: string }>(
    `SELECT c.relname || '.' || a.attname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      WHERE a.atttypid = 'bytea'::regtype AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND c.relnamespace = current_schema()::regnamespace AND NOT a.attisdropped ORDER BY 1`,
  )
  const places = sealedPlaces.map(({ table, column }) => `${table}.${column}`)
  expect([...places, ...Object.keys(notSealed)].sort(), 'add new columns to sealed-places.ts').toEqual(
    rows.map(({ name }) => name),
  )
})

test('each purpose of a secret has a place, or the reason why it has none', () => {
  const placed = new Set(sealedPlaces.map(({ purpose }) => purpose))
  expect([...placed, ...Object.keys(keptElsewhere)].sort()).toEqual([...secretPurposes()].sort())
})

test('the key and the owner of each place are as in the schema', async () => {
  for (const { table, key, owner } of sealedPlaces) {
    const { rows } = await db.pool.query<{ column: string; type: string }>(
      `SELECT a.attname AS column, format_type(a.atttypid, NULL) AS type FROM pg_index i
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
        WHERE i.indrelid = $1::regclass AND i.indisprimary ORDER BY array_position(i.indkey::int[], a.attnum::int)`,
      [table],
    )
    expect(rows, table).toEqual(key)
    await db.pool.query(`SELECT ${owner} FROM ${table} LIMIT 0`)
  }
})
