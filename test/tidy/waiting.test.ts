import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

// A test that waits for a time is slow on a quick machine and fails on a busy one.

const root = join(import.meta.dirname, '../..')
const WAITS = /\b(?:delay|sleep)\(|=> setTimeout\(|\bpg_sleep\(/g

/** How often each file waits, and why no test there depends on the length. */
const allowed: Record<string, readonly [count: number, reason: string]> = {
  'test/api/chat-completions.chaos.test.ts': [2, 'spreads requests and disconnects at random'],
  'test/api/chat-completions.idempotency.test.ts': [1, 'polls within a statement'],
  'test/api/routing-headers.test.ts': [1, 'a server that takes longer than the shortest limit'],
  'test/cli/terminal.test.ts': [1, 'polls'],
  'test/db/embedded.test.ts': [1, 'polls'],
  'test/db/pool.test.ts': [2, 'a statement that is cancelled'],
  'test/dispatch/bad-upstreams.test.ts': [2, 'a slow server'],
  'test/dispatch/failover.test.ts': [1, 'a slow server'],
  'test/dispatch/second-answers.test.ts': [1, 'a slow server'],
  'test/nodes/rolling-restart.test.ts': [1, 'the pace of clients'],
  'test/regression/signals-during-start.test.ts': [1, 'polls'],
}

test('no test waits for a time to pass', () => {
  const files = globSync('{src,test}/**/*.test.ts', { cwd: root }).filter(file => file !== 'test/tidy/waiting.test.ts')
  const counts = files.map(file => [file, readFileSync(join(root, file), 'utf8').match(WAITS)?.length ?? 0] as const)
  const advice =
    'Wait for what the time is to bring (expect.poll, vi.waitFor, an event), or move the clock that the code was given'
  expect(Object.fromEntries(counts.filter(([, count]) => count > 0)), advice).toEqual(
    Object.fromEntries(Object.entries(allowed).map(([file, [count]]) => [file, count])),
  )
})
