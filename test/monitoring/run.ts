// `npm run monitoring`: checks the rules of deploy/prometheus with promtool, then lets a Prometheus scrape a running gateway with
// traffic, and evaluates every expression of the rules and of the dashboard in it. Needs `prometheus` and `promtool` in PATH.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../bench/free-port.ts'
import { type StartedGateway, startGateway } from '../../clients/start-gateway.ts'
import { expressions } from './expressions.ts'

/** What a healthy gateway never counts: these expressions find no series. */
const NEVER_COUNTED = /switchyard_(ejections|job_failures|worker_crashes)_total/

const SCRAPE_S = 1
const WAIT_MS_MAX = 60_000

const home = mkdtempSync(join(tmpdir(), 'switchyard-monitoring-'))
try {
  const rules = fileURLToPath(new URL('../../deploy/prometheus/rules.yaml', import.meta.url))
  process.stdout.write(execFileSync('promtool', ['check', 'rules', rules], { encoding: 'utf8' }))
  await using gateway = await startGateway(home, '')
  await using prometheus = await startPrometheus(gateway)
  await sendTraffic(gateway)
  await until(
    'two scrapes with the traffic',
    async () => (await prometheus.query('rate(switchyard_requests_total[1m]) > 0')) > 0,
  )
  await sendTraffic(gateway)
  const failed: string[] = []
  for (const { where, expression } of expressions()) {
    const asked = expression.replaceAll('$__rate_interval', '1m').replaceAll('$job', '.*')
    // An alert without its threshold: a healthy gateway is below it.
    const figures = asked.trim().replace(/\s(>|==)\s[\d.* ]+$/, '')
    const series = await prometheus.query(figures)
    const isFine = series > 0 || NEVER_COUNTED.test(figures)
    console.log(`${isFine ? 'ok  ' : 'FAIL'} ${String(series).padStart(4)} series  ${where}`)
    if (!isFine) failed.push(`${where}: ${figures}`)
  }
  if (failed.length > 0) throw new Error(`These expressions find nothing:\n${failed.join('\n')}`)
} finally {
  rmSync(home, { recursive: true, force: true })
}

/** Whole answers, streams and refusals, so that each kind of series begins. */
async function sendTraffic({ baseUrl, apiKey }: StartedGateway): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const models = (await (await fetch(`${baseUrl}/models`, { headers })).json()) as { data: { id: string }[] }
  const model = models.data[0]?.id
  for (let n = 0; n < 20; n++) {
    const messages = [{ role: 'user', content: `Say ${n}.` }]
    const body = JSON.stringify({ model: n % 5 === 4 ? 'unknown-model' : model, messages, stream: n % 2 === 0 })
    await (await fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body })).text()
  }
}

async function startPrometheus({ metricsAddress }: StartedGateway) {
  const port = await freePort()
  const config = join(home, 'prometheus.yaml')
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: `${SCRAPE_S}s` },
      scrape_configs: [{ job_name: 'switchyard', static_configs: [{ targets: [metricsAddress] }] }],
    }),
  )
  const args = [`--config.file=${config}`, `--storage.tsdb.path=${join(home, 'tsdb')}`]
  const child = spawn('prometheus', [...args, `--web.listen-address=127.0.0.1:${port}`], { stdio: 'ignore' })
  const ended = once(child, 'close')
  const origin = `http://127.0.0.1:${port}`
  const stop = async () => {
    child.kill('SIGTERM')
    await ended
  }
  try {
    await until('Prometheus', async () => (await fetch(`${origin}/-/ready`).catch(() => undefined))?.ok === true)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    /** Returns how many series the expression has now. Throws when Prometheus cannot evaluate it. */
    async query(expression: string): Promise<number> {
      const response = await fetch(`${origin}/api/v1/query?${new URLSearchParams({ query: expression })}`)
      const answer = (await response.json()) as { status: string; error?: string; data: { result: unknown[] } }
      if (answer.status !== 'success') throw new Error(`${expression}: ${answer.error}`)
      return answer.data.result.length
    },
    [Symbol.asyncDispose]: stop,
  }
}

async function until(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WAIT_MS_MAX
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${WAIT_MS_MAX / 1000} s`)
    await delay(200)
  }
}
