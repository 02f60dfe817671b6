import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string) => readFileSync(`${root}${path}`, 'utf8')
const launcher = read('bin/switchyard')
const [, flags = ''] = /^v8_flags='(.+)'$/m.exec(launcher)!
const [, threshold = ''] = /^malloc_mmap_threshold=(\d+)$/m.exec(launcher)!

test('only bin/switchyard has the V8 flags and the malloc setting', () => {
  const names = [...flags.matchAll(/--[a-z0-9-]+/g)].map(([name]) => name)
  expect(names.length).toBeGreaterThan(1)
  const patterns = [...names, 'MALLOC_MMAP_THRESHOLD_'].flatMap(name => ['-e', name])
  // A decision and the changelog may quote them.
  const where = ['.', ':!bin/switchyard', ':!docs/decisions', ':!CHANGELOG.md', ':!bench/results', ':!test/release']
  const args = ['grep', '--name-only', '--fixed-strings', ...patterns, '--', ...where]
  expect(git(args)).toEqual([])
})

test('the decision on the flags quotes the ones that are used', () => {
  const decision = read('docs/decisions/2026-11-21-v8-heap-flags.md').replace(/\s+/g, ' ')
  expect(decision).toContain(`\`${flags}\``)
  expect(decision).toContain(`\`MALLOC_MMAP_THRESHOLD_=${threshold}\``)
})

test('npm start runs bin/switchyard in place of its shell', () => {
  const { scripts, bin } = JSON.parse(read('package.json')) as Record<string, Record<string, string>>
  expect(bin).toEqual({ switchyard: 'bin/switchyard' })
  expect(scripts).toMatchObject({ start: 'exec bin/switchyard start', switchyard: 'exec bin/switchyard' })
})

/** The lines that git prints; none when it finds nothing. */
function git(args: string[]): string[] {
  try {
    return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean)
  } catch (error) {
    if ((error as { status?: number }).status === 1) return []
    throw error
  }
}
