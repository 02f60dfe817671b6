import { beforeAll, expect, test } from 'vitest'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { admissionOf, HOSTER_ID, settle, settlementOf, useLedgerWorld } from '../ledger/ledger-world.ts'
import { useCli } from './use-cli.ts'

const world = useLedgerWorld()
const cli = useCli(world)

beforeAll(async () => {
  await world.pool.query(
    `INSERT INTO hoster (hoster_id, name, share_bps) VALUES ($1, 'acme', 8000), (gen_random_uuid(), 'idle', 8000)`,
    [HOSTER_ID],
  )
})

const earnings = (...args: string[]) => cli.run(['hoster', 'earnings', ...args])

test('earnings equal the ledger, by the period of each booking', async () => {
  const node = await world.addNode()
  const customerId = await world.addCustomer(1_000n)
  const charged = []
  for (const nanos of [101n, 50n]) {
    const admission = admissionOf(customerId, nanos)
    await node.ledger.admit(admission)
    await settle(node.ledger, settlementOf(admission, nanos, nanos))
    charged.push(admission.requestId)
  }
  await refundRequest(world.pool, { customerId, requestId: charged[0]!, amountNanos: 50n, reason: 'cut off' })
  // Move the first charge to October; its refund stays in November.
  await world.pool.query('ALTER TABLE ledger_tx DISABLE TRIGGER append_only')
  await world.pool.query(
    `UPDATE ledger_tx SET at = CASE WHEN tx_id = (SELECT tx_id FROM usage_event WHERE request_id = $1) THEN '2026-10-31T23:59:59.999Z'
       ELSE '2026-11-01T00:00:00Z' END::timestamptz`,
    [charged[0]],
  )
  const of = (earned: string, takenBack: string, net: string) => ({
    hoster_id: HOSTER_ID,
    name: 'acme',
    earned_usd: earned,
    taken_back_usd: takenBack,
    net_usd: net,
    all_time_usd: '0.000000081',
  })
  const nothing = { name: 'idle', earned_usd: '0.00', taken_back_usd: '0.00', net_usd: '0.00', all_time_usd: '0.00' }
  const read = async (...args: string[]) => JSON.parse((await earnings('--json', ...args)).stdout)
  expect(await read()).toMatchObject([
    { ...of('0.00000012', '0.000000039', '0.000000081'), from: null, to: null },
    nothing,
  ])
  expect(await read('--from', '2026-11-01', '--to', '2026-12-01')).toMatchObject([
    {
      ...of('0.00000004', '0.000000039', '0.000000001'),
      from: '2026-11-01T00:00:00.000Z',
      to: '2026-12-01T00:00:00.000Z',
    },
    nothing,
  ])
  expect(await read('--from', '0000-01-01', '--to', '2026-11-01')).toMatchObject([
    of('0.00000008', '0.00', '0.00000008'),
    nothing,
  ])
  expect((await earnings()).stdout).toMatch(/^acme +0\.00000012 +0\.000000039 +0\.000000081 +0\.000000081$/m)
})

test('an invalid period is refused', async () => {
  expect(await earnings('--from', '2026-02-30')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('a valid UTC date'),
  })
  expect(await earnings('--from', '2026-12-01', '--to', '2026-11-01')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--from must be before --to.'),
  })
})
