import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'

// dependency-cruiser cannot use TypeScript 7 and, without a parser for .ts files, reports no violation at all. These
// plant some of each kind of import and see that the real rules find them.
const root = fileURLToPath(new URL('../..', import.meta.url))
const planted: Record<string, string> = {
  'src/base/domain/word.ts': "import type { Pool } from '../db/pool.ts'\nexport type Word = Pool\n",
  'src/base/db/pool.ts': "import pg from 'pg'\nexport type Pool = pg.Pool\n",
  'src/request/route/rank.ts': "import { readFileSync } from 'node:fs'\nexport const rank = () => readFileSync('x')\n",
  'src/request/admit/admit.ts': "export { rank } from '../route/rank.ts'\n",
  'src/money/ledger/sum.ts': "import pg from 'pg'\nexport const client = new pg.Client()\n",
  'src/http/page.ts':
    "export async function load() {\n  await using stack = new AsyncDisposableStack()\n  using pool = stack.use(await import('../base/db/pool.ts'))\n  return pool\n}\n",
  'src/http/plain/plain-server.ts': 'export const door = 1\n',
  'src/http/server.ts': "import { door } from './plain/plain-server.ts'\nexport const server = door\n",
  'src/http/metrics.ts':
    "import { door } from './plain/plain-server.ts'\nimport { server } from './server.ts'\nexport const metrics = [door, server]\n",
  'src/base/runtime/node-http.ts': "export const http = process.getBuiltinModule('node:http')\n",
  'src/money/usage/ask.ts': "import { http } from '../../base/runtime/node-http.ts'\nexport const ask = http.get\n",
  'src/money/usage/dial.ts':
    "import { connect, type Socket } from 'node:net'\nimport { ask } from './ask.ts'\nexport const dial = (): [Socket, unknown] => [connect(1), ask]\n",
  'src/money/usage/one.ts': "import { two } from './two.ts'\nexport const one = (): number => two()\n",
  'src/money/usage/two.ts': "import { one } from './one.ts'\nexport const two = (): number => one()\n",
  'src/request/settle/settle.ts': "import { gone } from './gone.ts'\nexport const settle = gone\n",
  'src/request/relay/alone.ts': 'export const alone = 1\n',
  'src/cli.js': "import './start/compose.ts'\n",
  'src/start/compose.ts':
    "import './config/config.ts'\nimport '../http/page.ts'\nimport '../http/metrics.ts'\nimport '../request/chat/complete.ts'\n",
  'src/start/config/config.ts': 'export const config = {}\n',
  'src/wire/dialects/chat/chunk.ts':
    "import { failpoint } from '../../../base/runtime/failpoint.ts'\nexport const chunk = failpoint\n",
  'src/base/runtime/failpoint.ts': 'export const failpoint = 1\n',
  'src/request/chat/complete.ts':
    "import { config } from '../../start/config/config.ts'\nexport const complete = config\n",
  'src/market/supply/catalog.ts':
    "import { chunk } from '../../wire/dialects/chat/chunk.ts'\nexport const catalog = chunk\n",
  'src/attic/box.ts': "import './lid.ts'\n",
  'src/attic/lid.ts': 'export const lid = 1\n',
  'console/src/page.ts': "import type { Word } from '../../src/base/domain/word.ts'\nexport type Page = Word\n",
  'console/src/word.ts': "import { chunk } from '../../src/wire/dialects/chat/chunk.ts'\nexport const word = chunk\n",
}

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'switchyard-rules-'))
  await symlink(join(root, 'node_modules'), join(directory, 'node_modules'))
  for (const [path, text] of Object.entries(planted)) {
    await mkdir(dirname(join(directory, path)), { recursive: true })
    await writeFile(join(directory, path), text)
  }
})
afterAll(() => rm(directory, { recursive: true }))

it('finds a violation in every kind of import of a .ts file', async () => {
  const args = ['--config', join(root, '.dependency-cruiser.cjs'), '--output-type', 'json', 'src', 'console/src']
  const program = join(root, 'node_modules', '.bin', 'depcruise')
  const { stdout } = await promisify(execFile)(program, args, { cwd: directory, maxBuffer: 1 << 26 })
  const { summary } = JSON.parse(stdout) as { summary: { violations: { from: string; rule: { name: string } }[] } }
  const found = summary.violations.map(({ from, rule }) => `${from}: ${rule.name}`)
  expect([...new Set(found)].sort()).toEqual([
    'console/src/word.ts: console-imports-values-of-the-domain-only',
    'src/attic/box.ts: rooms-are-listed',
    'src/base/domain/word.ts: domain-imports-downward',
    'src/http/metrics.ts: plain-door-has-one-import',
    'src/http/page.ts: http-imports-downward',
    'src/market/supply/catalog.ts: supply-imports-downward',
    'src/money/ledger/sum.ts: pg-only-in-db',
    'src/money/usage/ask.ts: sockets-only-at-the-doors',
    'src/money/usage/dial.ts: sockets-only-at-the-doors',
    'src/money/usage/one.ts: no-cycles',
    'src/request/admit/admit.ts: admit-imports-downward',
    'src/request/chat/complete.ts: chat-imports-downward',
    'src/request/relay/alone.ts: no-orphans',
    'src/request/route/rank.ts: pure-rooms-do-no-io',
    'src/request/settle/settle.ts: no-missing-files',
    'src/wire/dialects/chat/chunk.ts: pure-rooms-have-no-failpoints',
  ])
})
