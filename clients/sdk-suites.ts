import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startDemoUpstream } from '../src/wire/demo-model/start-demo-upstream.ts'
import { cloneOnce, run, startGateway } from './start-gateway.ts'
import { type Suite, suites } from './suites-of-sdks.ts'

// npm run clients:suites: runs the tests that the SDKs of OpenAI and Anthropic for Python have for the endpoints that a gateway
// serves, with a Switchyard in place of their mock server, which accepts everything. So a failure is either a fault of the
// gateway or named in suites-of-sdks.ts with its reason. Exits with 1 if there is another one. Needs Python 3.10 with venv, and
// git. The repositories are cloned once, or taken from the directories in OPENAI_PYTHON and ANTHROPIC_SDK_PYTHON.

const here = fileURLToPath(new URL('.', import.meta.url))
const environment = join(here, '.venv-suites')
const DEMO_KEY = 'suites'

interface TestCase {
  readonly name: string
  /** The last line of the failure; null if it passed. */
  readonly failure: string | null
}

await main(process.argv.slice(2))

async function main(names: readonly string[]): Promise<void> {
  await install()
  const home = mkdtempSync(join(tmpdir(), 'switchyard-suites-'))
  const demo = await startDemoUpstream({ tokensPerSecond: 1_000_000, firstTokenMs: 0, apiKey: DEMO_KEY })
  try {
    await using gateway = await startGateway(home, configFor(demo.baseUrl))
    for (const suite of suites.filter(({ name }) => names.length === 0 || names.includes(name))) {
      await using door = await startDoor(gateway.baseUrl, gateway.apiKey, suite.prefix)
      report(suite, await runTests(suite, door.url, home))
    }
  } finally {
    await demo.close()
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** The models that the tests name, at the demo model. */
function configFor(upstream: string): string {
  const models = [...new Set(suites.flatMap(suite => suite.models))].map(id => {
    const embeds = id.includes('embedding')
    const features = embeds ? '[embeddings, dimensions]' : '[chat, completions, tools, json_schema]'
    return `    - { id: ${id}, context_tokens: 32768, features: ${features}, price_per_million_usd: { input: 0.1, output: 0.4 } }\n`
  })
  const tier = '{ requests_per_minute: 100000, requests_per_day: 100000, daily_spend_cap_usd: "1000" }'
  return `demo: { enabled: false }
account_tiers: { free: ${tier}, standard: ${tier} }
reports: { requests_per_minute: 100000 }
endpoints:
- name: scripted
  kind: local
  base_url: ${upstream}
  api_key: ${DEMO_KEY}
  models:
${models.join('')}`
}

async function install(): Promise<void> {
  for (const suite of suites) await cloned(suite)
  if (existsSync(join(environment, 'installed'))) return
  await run('python3', ['-m', 'venv', environment], { cwd: here })
  const requirements = ['install', '--quiet', '--requirement', 'requirements-suites.txt']
  await run(join(environment, 'bin', 'pip'), requirements, { cwd: here })
  writeFileSync(join(environment, 'installed'), '')
}

function cloned({ name, repository, commit, variable }: Suite): Promise<string> {
  return cloneOnce(process.env[variable] ?? join(here, `.suite-${name}`), repository, commit)
}

/** The suites have keys of their own, with blanks: the door takes them for the key of the gateway, and adds `prefix`. */
async function startDoor(baseUrl: string, apiKey: string, prefix: string) {
  const { hostname, port } = new URL(baseUrl)
  const server = createServer((request, response) => {
    const { authorization: _, 'x-api-key': _key, host: _host, ...headers } = request.headers
    const sent = forward(
      {
        ...{ hostname, port, method: request.method, path: `${prefix}${request.url}` },
        headers: { ...headers, authorization: `Bearer ${apiKey}` },
      },
      answer => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      },
    )
    sent.on('error', () => response.destroy())
    request.pipe(sent)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

async function runTests(suite: Suite, url: string, home: string): Promise<TestCase[]> {
  const directory = await cloned(suite)
  const results = join(home, `${suite.name}.xml`)
  const { output } = await run(
    join(environment, 'bin', 'python'),
    ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--tb=short', `--junitxml=${results}`, ...suite.files],
    {
      cwd: directory,
      env: { PATH: process.env.PATH!, HOME: home, PYTHONPATH: join(directory, 'src'), TEST_API_BASE_URL: url },
      mayFail: true,
    },
  )
  if (!existsSync(results)) throw new Error(`The suite of ${suite.name} did not run:\n${output}`)
  return readCases(readFileSync(results, 'utf8'))
}

/** Reads the test cases of pytest's JUnit report. Skipped ones are left out. */
function readCases(xml: string): TestCase[] {
  const cases: TestCase[] = []
  for (const [, attributes, inner = ''] of xml.matchAll(/<testcase ([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)) {
    if (inner.startsWith('<skipped')) continue
    const name = /classname="([^"]*)".* name="([^"]*)"/.exec(attributes!)!.slice(1, 3).join('.')
    const failure = /<(?:failure|error) message="([^"]*)"/.exec(inner)?.[1]
    cases.push({
      name: name.replace(/^tests\.api_resources\./, ''),
      failure: failure === undefined ? null : plain(failure),
    })
  }
  return cases
}

function plain(escaped: string): string {
  const entities: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', amp: '&', apos: "'", '#10': ' ' }
  return escaped.replace(/&(\w+|#10);/g, (all, name) => entities[name] ?? all).slice(0, 400)
}

function report({ name, commit, explained }: Suite, cases: readonly TestCase[]): void {
  const failed = cases.filter(({ failure }) => failure !== null)
  const reasonOf = ({ name: test, failure }: TestCase) =>
    explained.find(each => each.tests.test(test) && each.says.test(failure!))?.reason
  const unexplained = failed.filter(each => reasonOf(each) === undefined)
  console.log(`\n${name} at ${commit.slice(0, 8)}: ${cases.length - failed.length} of ${cases.length} tests passed`)
  for (const { reason } of explained) {
    const count = failed.filter(each => reasonOf(each) === reason).length
    console.log(`  ${count} failed: ${reason}`)
  }
  for (const { name: test, failure } of unexplained) console.log(`  UNEXPLAINED ${test}: ${failure}`)
  if (cases.length === 0 || unexplained.length > 0) process.exitCode = 1
}
