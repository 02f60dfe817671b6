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
  'src/domain/word.ts': "import type { Pool } from '../db/pool.ts'\nexport type Word = Pool\n",
  'src/db/pool.ts': "import pg from 'pg'\nexport type Pool = pg.Pool\n",
  'src/route/rank.ts': "import { readFileSync } from 'node:fs'\nexport const rank = () => readFileSync('x')\n",
  'src/admit/admit.ts': "export { rank } from '../route/rank.ts'\n",
  'src/ledger/sum.ts': "import pg from 'pg'\nexport const client = new pg.Client()\n",
  'src/http/page.ts':
    "export async function load() {\n  await using stack = new AsyncDisposableStack()\n  using pool = stack.use(await import('../db/pool.ts'))\n  return pool\n}\n",
  'src/http/plain/plain-door.ts': 'export const door = 1\n',
  'src/http/server.ts': "import { door } from './plain/plain-door.ts'\nexport const server = door\n",
  'src/http/metrics.ts':
    "import { door } from './plain/plain-door.ts'\nimport { server } from './server.ts'\nexport const metrics = [door, server]\n",
  'src/runtime/node-http.ts': "export const http = process.getBuiltinModule('node:http')\n",
  'src/usage/ask.ts': "import { http } from '../runtime/node-http.ts'\nexport const ask = http.get\n",
  'src/usage/dial.ts':
    "import { connect, type Socket } from 'node:net'\nimport { ask } from './ask.ts'\nexport const dial = (): [Socket, unknown] => [connect(1), ask]\n",
  'src/usage/one.ts': "import { two } from './two.ts'\nexport const one = (): number => two()\n",
  'src/usage/two.ts': "import { one } from './one.ts'\nexport const two = (): number => one()\n",
  'src/settle/settle.ts': "import { gone } from './gone.ts'\nexport const settle = gone\n",
  'src/relay/alone.ts': 'export const alone = 1\n',
  'src/cli.js': "import './start/compose.ts'\n",
  'src/start/compose.ts':
    "import '../config/config.ts'\nimport '../http/page.ts'\nimport '../http/metrics.ts'\nimport '../chat/complete.ts'\n",
  'src/config/config.ts': 'export const config = {}\n',
  'src/dialects/chat/chunk.ts':
    "import { failpoint } from '../../runtime/failpoint.ts'\nexport const chunk = failpoint\n",
  'src/runtime/failpoint.ts': 'export const failpoint = 1\n',
  'src/chat/complete.ts': "import { config } from '../config/config.ts'\nexport const complete = config\n",
  'src/supply/catalog.ts': "import { chunk } from '../dialects/chat/chunk.ts'\nexport const catalog = chunk\n",
  'src/attic/box.ts': "import './lid.ts'\n",
  'src/attic/lid.ts': 'export const lid = 1\n',
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
  const args = ['--config', join(root, '.dependency-cruiser.cjs'), '--output-type', 'json', 'src']
  const program = join(root, 'node_modules', '.bin', 'depcruise')
  const { stdout } = await promisify(execFile)(program, args, { cwd: directory, maxBuffer: 1 << 26 })
  const { summary } = JSON.parse(stdout) as { summary: { violations: { from: string; rule: { name: string } }[] } }
  const found = summary.violations.map(({ from, rule }) => `${from}: ${rule.name}`)
  expect([...new Set(found)].sort()).toEqual([
    'src/admit/admit.ts: admit-imports-downward',
    'src/attic/box.ts: rooms-are-listed',
    'src/chat/complete.ts: chat-imports-downward',
    'src/dialects/chat/chunk.ts: pure-rooms-have-no-failpoints',
    'src/domain/word.ts: domain-imports-downward',
    'src/http/metrics.ts: plain-door-has-one-import',
    'src/http/page.ts: http-imports-downward',
    'src/ledger/sum.ts: pg-only-in-db',
    'src/relay/alone.ts: no-orphans',
    'src/route/rank.ts: pure-rooms-do-no-io',
    'src/settle/settle.ts: no-missing-files',
    'src/supply/catalog.ts: supply-imports-downward',
    'src/usage/ask.ts: sockets-only-at-the-doors',
    'src/usage/dial.ts: sockets-only-at-the-doors',
    'src/usage/one.ts: no-cycles',
  ])
})
