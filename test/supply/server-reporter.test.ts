import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { createCharges, createServerReporter } from '../../src/market/supply/status/server-reporter.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase()
const answered = (count: number) => ({
  ...{ answered: count, failed: 0, busy: 0, answeredInRow: count, failedInRow: 0, lastError: null, errors: [] },
})

test('an offer whose attempts were dropped and begin again is charged once', async () => {
  const charges = createCharges()
  let attempts = new Map([['server/model', answered(2)]])
  const nodeId = randomUUID()
  const reporter = createServerReporter({
    ...{ pool: database.pool, nodeId: () => nodeId, version: '1', scheduler: systemScheduler },
    ...{
      offers: () => [],
      agents: () => [],
      disks: async () => [],
      masterKeys: () => [],
      customersKeptAway: () => new Map(),
    },
    ...{ attempts: () => attempts, charged: charges.of, log: { warn: () => {} } },
  })
  const add = () => charges.add('server/model', { costNanos: 10n, ownCostNanos: 5n })
  const report = async () => {
    await reporter.report()
    const { rows } = await database.pool.query(
      'SELECT sum(answered)::int AS answered, sum(cost_nanos)::int AS cost, sum(own_cost_nanos)::int AS own FROM server_day',
    )
    return rows[0]
  }
  add()
  add()
  expect(await report()).toEqual({ answered: 2, cost: 20, own: 10 })
  attempts = new Map()
  expect(await report()).toEqual({ answered: 2, cost: 20, own: 10 })
  add()
  attempts = new Map([['server/model', answered(1)]])
  expect(await report()).toEqual({ answered: 3, cost: 30, own: 15 })
})
