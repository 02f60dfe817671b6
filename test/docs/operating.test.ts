import { expect, test } from 'vitest'
import { fileSchema } from '../../src/config/schema.ts'
import { createMetrics } from '../../src/http/metrics.ts'
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
    expect(readPage('src/settle/over-reports.ts')).toMatch(new RegExp(`\\{[^}]*\\b${field}\\b[^}]*\\},\\s*'`))
  }
  expect(readPage('src/http/server.ts')).toContain('log.error({ requestId: ')
  expect(page).not.toContain('`reqId`')
})

test('docs/operating.md lists every metric with its type and labels', async () => {
  const { registry } = createMetrics({
    inFlight: () => 0,
    settleQueueLength: () => 0,
    lastAudit: async () => undefined,
  })
  const metrics = await registry.getMetricsAsJSON()
  const labelsOf = (name: string) => (registry.getSingleMetric(name) as unknown as { labelNames: string[] }).labelNames
  const counted = metrics
    .filter(({ name }) => name.startsWith('switchyard_'))
    .map(({ name, type }) => [name, String(type), labelsOf(name).join(', ')])
  const documented = tableRows(page, 'metric').map(([name, type, labels]) => [name, type, labels!.replaceAll('`', '')])
  expect(documented).toEqual(counted)
})
