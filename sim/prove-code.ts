import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CodeMutation } from './code-mutations.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Plants one bug while the tests of its file load the source, and returns the first test that fails. Undefined when the bug survives. */
export async function proveCode({ id, test }: CodeMutation): Promise<string | undefined> {
  return await firstFailure(test, { SWITCHYARD_PLANTED_BUG: id })
}

/** Throws when a test fails without a bug: every bug would be found then. */
export async function checkWithoutBugs(tests: ReadonlySet<string>): Promise<void> {
  for (const test of tests) {
    const failure = await firstFailure(test, {})
    if (failure !== undefined) throw new Error(`A test fails without a bug: ${test}: ${failure}`)
  }
}

async function firstFailure(test: string, env: Readonly<Record<string, string>>): Promise<string | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-prove-code-'))
  const path = join(directory, 'report.json')
  try {
    const vitest = join(root, 'node_modules/vitest/vitest.mjs')
    const how = ['--project=unit', '--project=embedded', '--bail=1', '--reporter=json', `--outputFile=${path}`]
    const child = spawn(process.execPath, [vitest, 'run', ...how, test], {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const [code] = await once(child, 'close')
    if (code === 0) return undefined
    const report = JSON.parse(readFileSync(path, 'utf8')) as Report
    const failed = report.testResults.flatMap(file => file.assertionResults).find(({ status }) => status === 'failed')
    if (failed === undefined) throw new Error(`${test} did not run`)
    return failed.title
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** The parts that are used of what Vitest writes. */
interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly status: string; readonly title: string }[]
  }[]
}
