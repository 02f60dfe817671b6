import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { createMetrics } from '../../src/http/metrics.ts'
import { WorkerMetrics } from '../../src/start/workers/worker-metrics.ts'
import { idleGauges } from '../harness/idle-gauges.ts'
import { expressions } from '../monitoring/expressions.ts'
import { readPage } from './page.ts'

test('the alerts and the dashboard name metrics and labels that exist', async () => {
  const { registry } = createMetrics(idleGauges)
  const known = new Map<string, readonly string[]>(
    (await registry.getMetricsAsJSON()).map(({ name }) => [
      name,
      (registry.getSingleMetric(name) as unknown as { labelNames: string[] }).labelNames,
    ]),
  )
  const ofPrimary = await new WorkerMetrics(() => []).text()
  for (const [, name = ''] of ofPrimary.matchAll(/^# TYPE (\S+)/gm)) if (!known.has(name)) known.set(name, [])
  const all = expressions()
  expect(all.length).toBeGreaterThan(40)
  for (const { where, expression } of all) {
    const names = [...expression.matchAll(/\b(?:switchyard|nodejs|process)_\w+/g)].map(([name]) => name)
    for (const name of names) {
      const base = known.has(name) ? name : name.replace(/_bucket$/, '')
      expect([where, base, known.has(base)]).toEqual([where, base, true])
    }
    const labels = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', '))
    const ofNames = new Set([
      'le',
      'instance',
      'job',
      ...names.flatMap(name => known.get(name.replace(/_bucket$/, '')) ?? []),
    ])
    for (const label of labels) expect([where, label, ofNames.has(label)]).toEqual([where, label, true])
  }
})

test('each alert says what happens, what to do, and how urgent it is', () => {
  const { groups } = parse(readPage('deploy/prometheus/rules.yaml'))
  for (const { alert, labels, annotations } of groups[0].rules)
    expect([alert, labels.severity, Object.keys(annotations)]).toEqual([
      expect.stringMatching(/^Switchyard[A-Z]\w+$/),
      expect.stringMatching(/^(page|ticket)$/),
      ['summary', 'description'],
    ])
})

test('the rules name the job of the sample and that of the chart', () => {
  const rules = readPage('deploy/prometheus/rules.yaml')
  const jobs = new Set([...rules.matchAll(/job="([^"]+)"/g)].map(([, job]) => job))
  const { scrape_configs: scrapes } = parse(readPage('deploy/prometheus/prometheus.yaml'))
  expect(scrapes.map(({ job_name }: { job_name: string }) => job_name)).toEqual([...jobs])
  expect([parse(readPage('deploy/helm/switchyard/Chart.yaml')).name]).toEqual([...jobs])
  expect(readPage('deploy/helm/switchyard/templates/service.yaml')).toContain('jobLabel: app.kubernetes.io/name\n')
})
