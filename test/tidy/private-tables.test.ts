import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const root = new URL('../..', import.meta.url)

test('no statement reads a table that graphile-worker calls private', () => {
  const files = globSync(['src/**/*.ts', 'sql/**/*.sql'], { cwd: root, exclude: ['**/*.test.ts'] })
  expect(files.length).toBeGreaterThan(500)
  const found = files.filter(path => /\b_private_/.test(readFileSync(new URL(path, root), 'utf8')))
  expect(found, 'use the view graphile_worker.jobs, a function of the library, or its events').toEqual([])
})
