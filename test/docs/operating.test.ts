import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { createMetrics } from '../../src/http/metrics.ts'
import { waitingKinds } from '../../src/operator/alarms/alarms.ts'
import { createDatabase } from '../../src/start/compose/database.ts'
import { fileSchema } from '../../src/start/config/schema.ts'
import { alarmKinds } from '../../src/wire/api/operator/overview.ts'
import { idleGauges } from '../harness/idle-gauges.ts'
import { readPage, tableRows } from './page.ts'

const page = readPage('docs/operating.md')

test('the steps for adding a hoster mention every hoster setting', () => {
  const steps = page.slice(page.indexOf('\n## Hosters, step by step'), page.indexOf('\n## Doctor'))
  for (const setting of Object.keys(fileSchema.shape.hosters.unwrap().shape))
    expect(steps).toContain(`hosters.${setting}`)
})

test('log fields for requests and hosters have the documented names', () => {
  for (const field of ['requestId', 'hosterId']) {
    expect(`${page}${readPage('docs/money.md')}`).toContain(`\`${field}\``)
    expect(readPage('src/request/settle/log-anomalies.ts')).toMatch(new RegExp(`\\{[^}]*\\b${field}\\b[^}]*\\},\\s*'`))
  }
  expect(readPage('src/http/server.ts')).toContain('log.error({ requestId: ')
  expect(page).not.toContain('`reqId`')
})

test('docs/operating.md lists every metric with its type and labels', async () => {
  const { registry } = createMetrics(idleGauges)
  const metrics = await registry.getMetricsAsJSON()
  const labelsOf = (name: string) => (registry.getSingleMetric(name) as unknown as { labelNames: string[] }).labelNames
  const counted = metrics
    .filter(({ name }) => name.startsWith('switchyard_'))
    .map(({ name, type }) => [name, String(type), labelsOf(name).join(', ')])
  const documented = tableRows(page, 'metric').map(([name, type, labels]) => [name, type, labels!.replaceAll('`', '')])
  expect(documented).toEqual(counted)
})

test('the connections to PostgreSQL are as many as three pages say', () => {
  const settings = fileSchema.parse({}).postgres
  const { lookups, deskLookups, ...pools } = createDatabase({
    config: {
      postgres: { moneyConnections: settings.money_connections, generalConnections: settings.general_connections },
    },
    connection: {},
    desk: {},
    log: {},
    // No pool has connected, so nothing has to be closed.
    started: { defer: () => {} },
  } as never)
  const most = Object.values(pools).map(pool => pool.pg.options.max!)
  const all = most.reduce((sum, max) => sum + max, 0)
  expect(readPage('docs/scaling.md')).toContain(`A node opens at most ${all} connections`)
  expect(page).toContain(`each node uses [up to ${all}](scaling.md#connections-to-postgresql)`)
  expect(page).toContain(`each worker uses its own ${all} connections to PostgreSQL`)
  const fixed = all - settings.money_connections - settings.general_connections
  expect(readPage('docs/config.md')).toContain(`in addition to [${fixed} with a fixed purpose]`)
})

test('docs/operating.md lists every alarm, and whether operators are notified of it', () => {
  const rows = tableRows(page, 'alarm').flatMap(([kinds, , sent]) =>
    kinds!.split(', ').map(kind => [kind.replaceAll('`', ''), sent === 'yes'] as const),
  )
  expect(rows.map(([kind]) => kind).toSorted()).toEqual([...alarmKinds].toSorted())
  expect(new Set(rows.filter(([, isSent]) => !isSent).map(([kind]) => kind))).toEqual(waitingKinds)
})

test('the messages quoted under Troubleshooting exist in the source', () => {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  const sources = globSync('src/**/*.ts', { cwd: root }).map(readPage)
  const section = page.slice(page.indexOf('\n## Troubleshooting'))
  const messages = [...section.matchAll(/^\| `([^`]+ [^`]+)` \|/gm)].map(([, message]) => message!)
  // The source fills in or combines the parts around ellipses, quotes, brackets, sentences, numbers and addresses.
  const fragments = messages
    .flatMap(message => message.split(/\.\.\.|"|\. |[()]|http:\S+|\d[\d.]*/))
    .map(fragment => fragment.trim())
    .filter(fragment => fragment.length > 10)
  expect(fragments.length).toBeGreaterThan(5)
  expect(fragments.filter(fragment => !sources.some(source => source.includes(fragment)))).toEqual([])
})
