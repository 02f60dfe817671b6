import { randomUUIDv7 } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { admissionOf, settle, settlementOf, useLedgerWorld, useNode } from '../ledger/ledger-world.ts'
import { useCli } from './use-cli.ts'

const world = useLedgerWorld()
const node = useNode(world)
const cli = useCli(world)
let customerId: string

beforeAll(async () => {
  customerId = await world.addCustomer(1_000n)
})

async function serve(chargeNanos: bigint): Promise<string> {
  const admission = admissionOf(customerId, 101n)
  await node.ledger.admit(admission)
  await settle(node.ledger, settlementOf(admission, 101n, chargeNanos))
  return admission.requestId
}

const refund = (...args: string[]) => cli.run(['ledger', 'refund', ...args])

const postedNanos = async () => (await readBalance(world.pool, customerId))!.postedNanos

test('a dry run, a refund and its repetition move the money once', async () => {
  const requestId = await serve(101n)
  const order = [requestId, '--amount', '0.000000050', '--reason', 'half was cut off', '--json']
  const facts = {
    request_id: requestId,
    customer_id: customerId,
    email: `${customerId}@example.org`,
    charged_usd: '0.000000101',
    amount_usd: '0.00000005',
    hoster_share_usd: '0.000000039',
    fee_usd: '0.000000011',
    reason: 'half was cut off',
    at: expect.stringMatching(/^\d{4}-.*Z$/),
    balance_usd: '0.000000949',
  }
  const runs = [await refund(...order, '--dry-run'), await refund(...order), await refund(...order)]
  expect(runs.map(({ code, stderr }) => [code, stderr])).toEqual([
    [0, ''],
    [0, ''],
    [0, ''],
  ])
  expect(runs.map(({ stdout }) => JSON.parse(stdout))).toEqual([
    { ...facts, refunded: false, would_refund: true, dry_run: true },
    { ...facts, refunded: true, dry_run: false },
    { ...facts, refunded: false, dry_run: false },
  ])
  expect(await postedNanos()).toBe(949n)
  const other = await refund(requestId, '--reason', 'all of it')
  expect(other).toMatchObject({ code: 1, stdout: '' })
  expect(other.stderr).toMatch(
    /was already refunded 0\.00000005 USD at .* A request is refunded only once\. Nothing was changed\./,
  )
  const again = await refund(requestId, '--amount', '0.00000005', '--reason', 'again')
  expect(again.stdout).toMatch(
    /^0\.00000005 of 0\.000000101 USD was already refunded at .* \(half was cut off\)\. Nothing was changed\./,
  )
})

test('without an amount the whole charge is refunded; the id of the answer identifies the request', async () => {
  const requestId = await serve(100n)
  const { code, stdout } = await refund(`chatcmpl-${requestId}`, '--reason', 'wrong language')
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: `Refunded 0.0000001 of 0.0000001 USD to ${customerId}@example.org: 0.00000008 USD from the hoster, 0.00000002 USD from the platform. The balance is 0.000000949 USD.\n`,
  })
})

test('an impossible refund is refused with the reason', async () => {
  const [paid, free] = [await serve(100n), await serve(0n)]
  const before = await postedNanos()
  const cases: [string[], number, RegExp][] = [
    [[paid, '--amount', '0.000000101', '--reason', 'x'], 1, /cost 0\.0000001 USD; a refund cannot exceed that/],
    [[free, '--reason', 'x'], 1, /cost nothing, so there is nothing to refund/],
    [[randomUUIDv7(), '--reason', 'x'], 1, /There is no settled request/],
    [['what', '--reason', 'x'], 2, /x-request-id of an answer/],
    [[paid, '--amount', '0', '--reason', 'x'], 2, /must be USD above zero/],
    [[paid], 2, /Required option '--reason <text>'/],
  ]
  for (const [args, code, message] of cases) {
    const run = await refund(...args)
    expect(run).toMatchObject({ code, stdout: '' })
    expect(run.stderr).toMatch(message)
  }
  expect(await postedNanos()).toBe(before)
  expect(await world.violations()).toEqual([])
})
