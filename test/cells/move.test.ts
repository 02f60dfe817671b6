import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { FailpointName } from '../../src/base/runtime/failpoint.ts'
import { sumCells } from '../../src/operator/cells/sum-cells.ts'
import type { TestCustomer } from '../harness/app.ts'
import { useResource } from '../harness/use-resource.ts'
import { type Cell, startCellWorld } from './cell-world.ts'

const world = useResource(startCellWorld, world => world.close())
const body = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }
const CREDIT = 5_000_000_000n
/** Of one request, in nano-USD. */
const PRICE = 20_000n

const sums = () => sumCells([world.a, world.b].map(({ name, database: { pool } }) => ({ name, pool })))
const move = ({ customerId }: TestCustomer, ...options: string[]) =>
  world.a.cli(['cell', 'move', customerId, '--to', 'b', '--json', ...options])

async function moved(customer: TestCustomer): Promise<void> {
  const { code, stderr } = await move(customer)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  await Promise.all([world.a, world.b].map(({ app }) => app.app.noticeChanges()))
}

/** Kills the command at a failpoint. */
async function killedAt(name: FailpointName, customer: TestCustomer, ...options: string[]): Promise<void> {
  const args = ['cell', 'move', customer.customerId, '--to', 'b', ...options]
  const { stderr } = await world.a.cli(args, `${name}:kill`)
  expect(stderr).toContain(`"failpoint":"${name}"`)
}

async function spent({ database }: Cell, { customerId }: TestCustomer): Promise<bigint> {
  const { rows } = await database.pool.query<{ spent: bigint }>(
    'SELECT coalesce(sum(cost_nanos), 0)::bigint AS spent FROM usage_event WHERE customer_id = $1',
    [customerId],
  )
  return rows[0]?.spent ?? 0n
}

test('a customer moves with its money exact, and its key works at every front', async () => {
  const customer = await world.a.app.customer({ key: { scopes: ['manage'] } })
  const limited = await world.a.app.anotherKey(customer, { limit: { limitNanos: CREDIT, reset: 'monthly' } })
  const repeated = { headers: { 'idempotency-key': randomUUID() } }
  const first = await world.a.app.chat(customer, body, repeated)
  expect((await world.a.app.chat(limited, body)).status).toBe(200)
  const charged = await spent(world.a, customer)
  expect(charged).toBe(2n * PRICE)
  await moved(customer)
  expect(await world.a.app.balanceNanos(customer)).toBe(0n)
  expect(await world.b.app.balanceNanos(customer)).toBe(CREDIT - charged)

  for (const { app } of [world.a, world.b]) expect((await app.chat(customer, body)).status).toBe(200)
  expect(await spent(world.a, customer)).toBe(charged)
  expect(await spent(world.b, customer)).toBe(2n * PRICE)
  const again = await world.b.app.chat(customer, body, repeated)
  expect(await again.json()).toEqual(await first.json())
  const { rows } = await world.b.database.pool.query<{ remains: string }>(
    'SELECT remains FROM promotion_days(ARRAY[$1::uuid]) ORDER BY day DESC LIMIT 1',
    [customer.customerId],
  )
  expect(rows).toEqual([{ remains: String(CREDIT - 4n * PRICE) }])
  expect((await world.b.app.chat(limited, body)).status).toBe(200)
  const { rows: windows } = await world.b.database.pool.query(
    'SELECT spent_nanos, before_nanos FROM key_spend WHERE customer_id = $1',
    [customer.customerId],
  )
  expect(windows).toEqual([{ spent_nanos: 2n * PRICE, before_nanos: PRICE }])
  const statement = await (await world.b.app.get(customer, '/v1/credits/transactions')).json()
  expect(statement).toMatchObject({ data: [{ kind: 'usage' }, { kind: 'cell_move' }] })
  expect(await sums()).toMatchObject({ isExact: true, inTransitNanos: 0n, wrongMoves: [] })
  const shown = JSON.parse((await world.b.cli(['cell', 'sums', '--json'])).stdout)
  expect(shown).toMatchObject({ ok: true, in_transit_usd: '0.00' })
})

test.each(['cell-move-stopped', 'cell-move-sent', 'cell-move-received'] as const)(
  'a move that is killed at %s goes on when it is repeated',
  async name => {
    const customer = await world.a.app.customer()
    await killedAt(name, customer)
    const { inTransitNanos, isExact } = await sums()
    expect({ inTransitNanos, isExact }).toEqual({
      inTransitNanos: name === 'cell-move-sent' ? CREDIT : 0n,
      isExact: true,
    })
    await world.a.app.app.noticeChanges()
    expect((await world.a.app.chat(customer, body)).status).toBe(503)
    await moved(customer)
    await moved(customer)
    expect(await world.b.app.balanceNanos(customer)).toBe(CREDIT)
    expect((await world.a.app.chat(customer, body)).status).toBe(200)
    expect(await sums()).toMatchObject({ isExact: true, inTransitNanos: 0n })
  },
)

test.each(['cell-move-stopped', 'cell-move-sent'] as const)('a move that is killed at %s can be undone', async name => {
  const customer = await world.a.app.customer()
  await killedAt(name, customer)
  await killedAt('cell-move-refused', customer, '--undo')
  const undone = await move(customer, '--undo')
  expect({ code: undone.code, stderr: undone.stderr }).toEqual({ code: 0, stderr: '' })
  await world.a.app.app.noticeChanges()
  expect(await world.a.app.balanceNanos(customer)).toBe(CREDIT)
  expect((await world.a.app.chat(customer, body)).status).toBe(200)
  expect(await sums()).toMatchObject({ isExact: true, inTransitNanos: 0n })
  await moved(customer)
  expect(await world.b.app.balanceNanos(customer)).toBe(CREDIT - PRICE)
})

test('a move that has arrived is not undone', async () => {
  const customer = await world.a.app.customer()
  await killedAt('cell-move-received', customer)
  const undone = await move(customer, '--undo')
  expect(undone).toMatchObject({ code: 1, stderr: expect.stringContaining('b has received') })
  await moved(customer)
  expect(await world.b.app.balanceNanos(customer)).toBe(CREDIT)
})

test('a move under load loses no charge, and refuses with 503 only', async () => {
  const customer = await world.a.app.customer()
  const statuses = new Map<number, number>()
  let isOver = false
  const load = [world.a, world.b, world.a, world.b].map(async ({ app }) => {
    for (let after = 0; after < 5; after += isOver ? 1 : 0) {
      const { status } = await app.chat(customer, body)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  })
  await moved(customer)
  isOver = true
  await Promise.all(load)
  expect([...statuses.keys()].sort()).toEqual([200, 503])
  const [before, after] = [await spent(world.a, customer), await spent(world.b, customer)]
  expect(before + after).toBe(BigInt(statuses.get(200) ?? 0) * PRICE)
  expect(before > 0n && after > 0n).toBe(true)
  expect(await world.b.app.balanceNanos(customer)).toBe(CREDIT - before - after)
  expect(await sums()).toMatchObject({ isExact: true, inTransitNanos: 0n })
})

test('a customer comes back with what it has there', async () => {
  const customer = await world.a.app.customer()
  await moved(customer)
  expect((await world.b.app.chat(customer, body)).status).toBe(200)
  const back = await world.b.cli(['cell', 'move', customer.customerId, '--to', 'a'])
  expect({ code: back.code, stderr: back.stderr }).toEqual({ code: 0, stderr: '' })
  await Promise.all([world.a, world.b].map(({ app }) => app.app.noticeChanges()))
  expect(await world.a.app.balanceNanos(customer)).toBe(CREDIT - PRICE)
  for (const { app } of [world.a, world.b]) expect((await app.chat(customer, body)).status).toBe(200)
  expect(await spent(world.a, customer)).toBe(2n * PRICE)
  expect(await sums()).toMatchObject({ isExact: true, inTransitNanos: 0n })
})

test('a customer that cannot move stays, with the reason', async () => {
  const customer = await world.a.app.customer()
  await world.a.database.pool.query(
    `INSERT INTO grant_request (grant_id, customer_id, amount_nanos, ref, reason, state, requested_by, is_promotion)
     VALUES (gen_random_uuid(), $1, 1, 'waits', 'waits', 'waiting', gen_random_uuid(), true)`,
    [customer.customerId],
  )
  const refused = await move(customer)
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('a grant that waits for a decision') })
  expect((await world.a.app.chat(customer, body)).status).toBe(200)
  const unknown = await world.a.cli(['cell', 'move', customer.customerId, '--to', 'c'])
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('no other cell c; it has b') })
})
