// The program of `npm run sim -- --prove-sql`: runs test files once per planted SQL bug, on one PostgreSQL. Of each bug it
// reports the first test that fails, and skips the rest.
import { appendFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe } from 'vitest'
import type { SqlFinding } from '../../sim/prove-sql.ts'
import { plantInNewDatabases } from '../harness/planted-sql-bug.ts'

const { bugs, files, findings } = JSON.parse(process.env.SWITCHYARD_PLANTED_SQL_BUGS!) as {
  /** Ids of sim/sql-mutations.ts. Another text runs the tests without a bug. */
  readonly bugs: readonly string[]
  /** Absolute paths. */
  readonly files: readonly string[]
  /** Gets a line for each finding. */
  readonly findings: string
}

const root = fileURLToPath(new URL('../..', import.meta.url))

for (const bug of bugs) {
  let isFound = false
  for (const file of files) {
    describe(`${bug} ${relative(root, file)}`, async () => {
      beforeAll(() => plantInNewDatabases(bug))
      afterAll(() => plantInNewDatabases(undefined))
      beforeEach(({ skip, onTestFailed, task }) => {
        skip(isFound)
        onTestFailed(() => {
          if (isFound) return
          isFound = true
          const error = task.result?.errors?.[0]
          const finding: SqlFinding = {
            bug,
            file: relative(root, file),
            test: task.name,
            error: `${error?.name}: ${error?.message}`,
            cause: error?.cause === undefined ? '' : String(error.cause.message),
          }
          appendFileSync(findings, `${JSON.stringify(finding)}\n`)
        })
      })
      // Another query is another instance of the module.
      await import(/* @vite-ignore */ `${file}?bug=${bug}`)
    })
  }
}
