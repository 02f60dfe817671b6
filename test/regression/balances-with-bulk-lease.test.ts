import { randomUUIDv7 } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { encodeSettlements } from '../../src/ledger/settlement/settlement-record.ts'
import { databaseUrl, runCli } from '../cli/run-cli.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, createLedgerWorld, type LedgerWorld, settlementOf, unlimited } from '../ledger/ledger-world.ts'

const USD = 1_000_000_000n

let world: LedgerWorld
let directory: string
beforeAll(async () => {
  ;[world, directory] = await Promise.all([createLedgerWorld(), mkdtemp(join(tmpdir(), 'switchyard-cli-'))])
})
afterAll(() => Promise.all([world.drop(), rm(directory, { recursive: true })]))

async function json(...args: string[]) {
  const env = { DATABASE_URL: databaseUrl(world.connection), SWITCHYARD_DATA: directory }
  const { code, stdout, stderr } = await runCli([...args, '--json'], { cwd: directory, env, input: '' })
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout)
}

// Went wrong: `customer list` and `credit grant` ignored the charges of an open bulk lease, up to a minute of requests (fixed in 160f062).
test('commands subtract the charges of an open bulk lease from the balance', async () => {
  const store = storeOf(world.pool)
  const { nodeId } = await world.addNode()
  const customerId = await world.addCustomer(16n * USD)
  await world.addCustomer(2n * USD)
  const leaseId = randomUUIDv7()
  await store.admit(nodeId, [{ leaseId, customerId, limits: unlimited, wantNanos: USD, floorNanos: USD, slots: 20 }])
  const settlement = settlementOf(admissionOf(customerId, USD), USD, USD, { leaseId })
  await store.settle(1, encodeSettlements([settlement]))

  const balances = (await json('customer', 'list')).map(({ balance_usd }: { balance_usd: string }) => balance_usd)
  expect(balances).toEqual(['15.00', '2.00'])
  const grant = ['credit', 'grant', customerId, '3', '--reason', 'paid', '--yes']
  expect(await json(...grant)).toMatchObject({ balance_usd: '18.00' })
  expect(await world.violations()).toEqual([])
})
