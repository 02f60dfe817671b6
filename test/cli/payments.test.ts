import { createHash, randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { normalisedCode } from '../../src/money/payments/random-code.ts'
import { useLedgerWorld } from '../ledger/ledger-world.ts'
import { useCli } from './use-cli.ts'

const world = useLedgerWorld()
const cli = useCli(world)
const posted = async (customerId: string) => (await readBalance(world.pool, customerId))!.postedNanos
const result = async (...args: string[]) => {
  const { code, stdout, stderr } = await cli.run([...args, '--json'])
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as never
}

test('a manual payment is listed, confirmed once, taken back and given back', async () => {
  const customerId = await world.addCustomer(0n)
  await world.pool.query(
    "SELECT start_payment($1, $2, 'manual', 25000000000, 2500, 'usd', true, 'SY-TEST-0001', NULL, NULL, NULL, NULL)",
    [randomUUID(), customerId],
  )
  expect(await result('payments', 'list', '--open')).toMatchObject([
    { reference: 'SY-TEST-0001', state: 'open', amount_usd: '25.00', customer_id: customerId },
  ])
  expect(await result('payments', 'confirm', 'sy-test-0001')).toMatchObject({ confirmed: true })
  expect(await result('payments', 'confirm', 'SY-TEST-0001')).toMatchObject({ confirmed: false })
  expect(await posted(customerId)).toBe(25_000_000_000n)
  const taken = await result('payments', 'reverse', 'SY-TEST-0001', '--amount', '10', '--reason', 'sent back')
  expect(taken).toMatchObject({ amount_usd: '10.00' })
  expect(await posted(customerId)).toBe(15_000_000_000n)
  const { reversal_id } = taken as { reversal_id: string }
  expect(await result('payments', 'return', reversal_id)).toMatchObject({ returned: true })
  expect(await posted(customerId)).toBe(25_000_000_000n)
  const tooMuch = await cli.run(['payments', 'reverse', 'SY-TEST-0001', '--amount', '25.01', '--reason', 'x'])
  expect(tooMuch).toMatchObject({ code: 1, stdout: '' })
  expect(tooMuch.stderr).toContain('The payment has less left than this amount.')
  const unknown = await cli.run(['payments', 'confirm', 'SY-NONE-0000'])
  expect(unknown.stderr).toContain('There is no payment SY-NONE-0000.')
})

test('vouchers are made with their codes on stdout, listed without them, and revoked', async () => {
  const { code, stdout } = await cli.run([
    'voucher',
    'make',
    '7.5',
    '--count',
    '2',
    '--days',
    '3',
    '--note',
    'fair',
    '--paid',
  ])
  expect(code).toBe(0)
  const codes = stdout.trim().split('\n')
  expect(codes).toHaveLength(2)
  const { rows } = await world.pool.query<{ hash: Buffer }>('SELECT code_hash AS hash FROM voucher')
  const hashes = rows.map(({ hash }) => hash.toString('hex'))
  for (const each of codes) {
    expect(hashes).toContain(createHash('sha256').update(normalisedCode(each)).digest('hex'))
  }
  const hint = codes[0]!.slice(-5)
  expect(await result('voucher', 'revoke', hint)).toMatchObject({ revoked: true })
  const listed = await cli.run(['voucher', 'list', '--json'])
  for (const each of codes) expect(listed.stdout).not.toContain(each)
  expect(JSON.parse(listed.stdout)).toMatchObject(
    expect.arrayContaining([expect.objectContaining({ hint, state: 'revoked', note: 'fair', amount_usd: '7.50' })]),
  )
  expect((await cli.run(['voucher', 'revoke', hint])).code).toBe(1)
  // Without --paid, nobody paid for them.
  expect(await result('voucher', 'make', '1')).toMatchObject([{ amount_usd: '1.00', is_promotion: true }])
  expect(await result('voucher', 'list')).toMatchObject([
    { is_promotion: true },
    { is_promotion: false },
    { is_promotion: false },
  ])
})

test('differences are listed until an operator accepts them with a note, which the audit log keeps', async () => {
  expect(await result('payments', 'differences')).toEqual([])
  await world.pool.query(
    "SELECT note_payment_difference('stripe', 'ch_1', 'charge', 'unknown_payment', NULL, 'pi_1', 700, 'usd', '2026-11-01')",
  )
  expect(await result('payments', 'differences')).toEqual([
    {
      made_at: '2026-11-01T00:00:00.000Z',
      driver: 'stripe',
      kind: 'charge',
      problem: 'unknown_payment',
      amount_minor: 700,
      currency: 'usd',
      name: 'ch_1',
      payment_id: null,
    },
  ])
  expect((await cli.run(['payments', 'differences'])).stdout).toContain('700 usd')
  const withoutNote = await cli.run(['payments', 'accept', 'ch_1'])
  expect(withoutNote.code).not.toBe(0)
  expect(await result('payments', 'accept', 'ch_1', '--note', 'paid back')).toEqual({ name: 'ch_1', accepted: true })
  expect(await result('payments', 'differences')).toEqual([])
  const again = await cli.run(['payments', 'accept', 'ch_1', '--note', 'paid back'])
  expect(again).toMatchObject({ code: 1, stdout: '' })
  expect(again.stderr).toContain('There is no open difference ch_1.')
  const { rows } = await world.pool.query(
    "SELECT subject, detail FROM audit_entry WHERE action = 'payment.difference_accepted'",
  )
  expect(rows).toMatchObject([{ subject: 'ch_1', detail: { driver: 'stripe', note: 'paid back' } }])
})

test('a reconciliation without a provider asks for nothing', async () => {
  expect(await result('payments', 'reconcile')).toEqual({ looked: 0, booked: 0, mismatched: 0, failed: 0 })
})

test('a difference is ended at the provider that has it, also if another one has the same name', async () => {
  const add = (driver: string, ref: string) =>
    world.pool.query(
      "SELECT note_payment_difference($1, $2, 'charge', 'unknown_payment', NULL, $2, 100, 'usd', now())",
      [driver, ref],
    )
  await add('stripe', 'both')
  await add('paddle', 'both')
  await add('stripe', 'one')
  const open = async () =>
    (await world.pool.query('SELECT driver, ref FROM payment_difference WHERE ended_at IS NULL ORDER BY ref, driver'))
      .rows
  const accept = ['payments', 'accept', 'both', '--note', 'paid back by hand']
  expect((await cli.run(accept)).stderr).toContain(
    'paddle and stripe each have a difference both. Choose one with --provider.',
  )
  expect(await result(...accept, '--provider', 'paddle')).toMatchObject({ accepted: true })
  expect(await result('payments', 'accept', 'one', '--note', 'x')).toMatchObject({ accepted: true })
  expect(await open()).toEqual([{ driver: 'stripe', ref: 'both' }])
  expect((await cli.run([...accept, '--provider', 'paddle'])).stderr).toContain('There is no open difference both.')
})
