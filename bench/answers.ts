import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { addHosters, untilListed } from './add-hosters.ts'
import { customerCount } from './answers/answer-text.ts'
import { startDoubtfulServer } from './answers/doubtful-server.ts'
import { type RequestTally, sendRequests } from './answers/send-requests.ts'
import { assertAllOk, checksSection, type Finding } from './finding.ts'
import { startGateway, withDatabase } from './gateway.ts'
import { readMachine, reportHead } from './machine.ts'
import { markdownPage, markdownTable } from './markdown.ts'
import { printProgress } from './print-progress.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { addCustomers, benchConfig } from './subjects/switchyard.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:answers`: two customers, and hosters that answer wrongly on kept connections. See bench/README.md. */
const { values } = parseArgs({
  options: { requests: { type: 'string', default: '100000' }, seed: { type: 'string', default: '22' } },
})
const [requests, seed] = [Number(values.requests), Number(values.seed)]
if (!(requests >= 1_000 && requests <= 10_000_000 && Number.isInteger(seed))) {
  printProgress('--requests must be 1000 to 10000000, and --seed a whole number')
  process.exit(2)
}

/** Shorter runs write no report. */
const REPORT_REQUESTS_MIN = 100_000
const REQUESTS_PER_HOSTER = 50
const CALM_REQUESTS_MAX = 40
const CONCURRENCY = 64
const CREDIT_USD = 1_000_000

const dir = makeBenchmarkDir()
await runBenchmark(dir, async () => {
  const machine = readMachine(null)
  const server = await startDoubtfulServer({ seed, calmRequestsMax: CALM_REQUESTS_MAX })
  const models = Array.from({ length: Math.ceil(requests / REQUESTS_PER_HOSTER) }, (_, hoster) => `model-${hoster}`)
  const gatewayDir = join(dir, 'switchyard')
  mkdirSync(gatewayDir)
  const config = { ...benchConfig(server.origin), endpoints: [], hosters: { allow_private_urls: true } }
  const gateway = await startGateway({ dir: gatewayDir, cores: null, config })
  const customers = await withDatabase(gateway, async pool => {
    await addHosters(
      pool,
      models.map(modelId => ({ modelId, baseUrl: `${server.origin}/${modelId}/v1` })),
    )
    return await addCustomers(pool, customerCount, CREDIT_USD)
  })
  await untilListed(gateway.origin, customers[0]!, models.length)
  printProgress(`${models.length} hosters are ready`)
  const startedMs = performance.now()
  const plan = { origin: gateway.origin, keys: customers.map(keyOf), models, requests, concurrency: CONCURRENCY, seed }
  const tally = await sendRequests(plan)
  const seconds = (performance.now() - startedMs) / 1000
  await gateway.stop()
  await server.close()
  const findings = findingsOf(tally)
  const report = markdownPage([
    reportHead('Answers and the customers they reach', 'npm run bench:answers', machine, [
      `- ${requests.toLocaleString('en')} requests of ${customerCount} customers in ${seconds.toFixed(0)} s, ${CONCURRENCY} at a time, seed ${seed}`,
      `- ${models.length.toLocaleString('en')} hosters at one origin. Each answers up to ${CALM_REQUESTS_MAX} requests once and then has a habit.`,
      `- ${server.requests.kept.toLocaleString('en')} of ${server.requests.all.toLocaleString('en')} requests that reached the hosters came on a connection that had carried another one.`,
    ]),
    `## What the hosters did\n\n${countTable('habit', server.counts)}`,
    `## What the customers received\n\n${countTable('answer', tally.counts)}`,
    checksSection(findings),
  ])
  process.stdout.write(report)
  if (requests >= REPORT_REQUESTS_MIN) printProgress(`wrote ${writeReport('answers', report)}`)
  assertAllOk(findings)
})

function keyOf({ authorization }: Record<string, string>): string {
  return authorization!.replace('Bearer ', '')
}

function findingsOf({ counts, wrong }: RequestTally): Finding[] {
  for (const each of wrong) printProgress(each)
  const foreign = counts.get('foreign') ?? 0
  const mixed = counts.get('mixed') ?? 0
  return [
    {
      ok: foreign === 0,
      text: `${foreign} customers received an answer, or a byte of one, that belonged to the other customer`,
    },
    { ok: mixed === 0, text: `${mixed} customers received bytes of several answers as one` },
  ]
}

function countTable(name: string, counts: ReadonlyMap<string, number>): string {
  const rows = [...counts].sort(([, a], [, b]) => b - a)
  return markdownTable(
    [name, 'requests'],
    rows.map(([key, count]) => [key, count.toLocaleString('en')]),
  )
}
