import { describe, expect, test } from 'vitest'
import { freePort } from '../../bench/free-port.ts'
import { type DatabaseFault, faultOf, isDatabaseAway } from '../../src/base/db/database-fault.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { refuseOutage } from '../../src/base/db/refuse-outage.ts'
import { ApiError } from '../../src/base/domain/errors.ts'
import { isTransient } from '../../src/money/ledger/is-transient.ts'
import { NodeFenced } from '../../src/money/ledger/ledger-store.ts'

const withCode = (code: string) => Object.assign(new Error(code), { code })

// One code of every row of the table, and the outages that lost charges or could.
const table: readonly (readonly [DatabaseFault, string, readonly string[]])[] = [
  ['unavailable', 'the connection', ['08000', '08006', '08P01', 'EPIPE', 'EBUSY', 'ECONNRESET', 'ECONNREFUSED']],
  ['unavailable', 'out of disk, memory or connections', ['53000', '53100', '53200', '53300', '53400']],
  ['unavailable', 'read-only, or a transaction that took too long', ['25006', '25P03', '25P04']],
  ['unavailable', 'a prepared statement is gone', ['26000']],
  ['unavailable', 'the login', ['28000', '28P01']],
  ['unavailable', 'a restore', ['3D000', '3F000', '42P01', '42883', '42501', '42703']],
  ['unavailable', 'maintenance', ['55000', '55006', '57P04', '57P05']],
  ['unavailable', 'an error of the disk', ['58000', '58030', '58P01']],
  ['unavailable', 'a class that the table does not have', ['F0000', 'HV000', '0A000', '72000']],
  ['restarting', 'shutdown, crash, startup', ['57P01', '57P02', '57P03']],
  ['blocked', 'another transaction', ['40001', '40P01', '40003', '55P03', '57014']],
  ['blocked', 'damaged data', ['XX000', 'XX001', 'XX002']],
  ['rejected', 'the data', ['21000', '22003', '22P02', '22021', '23505', '23514', '44000', '54000', '54001', 'P0001']],
]

describe.each(table)('%s: %s', (fault, _what, codes) => {
  test.each(codes)('%s', code => {
    expect(faultOf(withCode(code))).toBe(fault)
    expect(isTransient(withCode(code))).toBe(fault !== 'rejected')
  })
})

test('an error without a code is one of the driver, and a bug is not sent again', () => {
  expect(faultOf(new Error('Query read timeout'))).toBe('unavailable')
  expect(isTransient(new NodeFenced('a'))).toBe(true)
  for (const bug of [new TypeError('x'), new RangeError('x'), 'text', undefined]) expect(faultOf(bug)).toBe('rejected')
})

test('PostgreSQL is away: by its code, or by a connection of ours that broke', async () => {
  const refused = await createPool(
    { host: '127.0.0.1', port: await freePort(), user: 'nobody', database: 'none' },
    { max: 1, applicationName: 'test' },
  )
    .query('SELECT 1')
    .catch((error: Error) => error)
  expect(refused).toMatchObject({ code: 'ECONNREFUSED' })
  const away = [
    refused,
    withCode('57P03'),
    withCode('53300'),
    new Error('Query read timeout'),
    new ApiError('database_unavailable'),
  ]
  expect(away.map(isDatabaseAway)).toEqual(away.map(() => true))
  expect(isDatabaseAway(new Error('the job failed', { cause: refused }))).toBe(true)
  const others = [
    withCode('ECONNREFUSED'),
    withCode('23505'),
    withCode('55P03'),
    new Error('no such mailbox'),
    new TypeError('x'),
  ]
  expect(others.map(isDatabaseAway)).toEqual(others.map(() => false))
})

describe('what the client of a failed statement gets', () => {
  const refusalOf = (thrown: unknown, message?: string): unknown => {
    try {
      return refuseOutage(thrown, message)
    } catch (error) {
      return error
    }
  }

  test('an outage is 503 with the message of the caller, and keeps its cause for the log', () => {
    const full = withCode('53100')
    expect(refusalOf(full, 'No report.')).toMatchObject({
      ...{ code: 'database_unavailable', message: 'No report.', internal: full, retryAfterS: 2 },
    })
    expect(refusalOf(full)).toMatchObject({ message: new ApiError('database_unavailable').message })
  })

  test('an error for the client, and a bug, stay what they are', () => {
    for (const thrown of [new ApiError('not_found'), withCode('23505'), new TypeError('x')])
      expect(refusalOf(thrown)).toBe(thrown)
  })
})
