import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

// The files of a run share processes. A module that an earlier file has loaded keeps its imports, so a replaced module
// has no effect on it: such a test fails or passes depending on the files that ran before it.

const root = fileURLToPath(new URL('../..', import.meta.url))
const replacesModule = /\bvi\s*\.\s*(?:mock|doMock|hoisted|resetModules)\b/
const files = globSync('{src,test}/**/*.ts', { cwd: root }).filter(file => file !== 'test/tidy/module-mocks.test.ts')

test('no test replaces a module: it passes in what it changes, or watches an object with vi.spyOn', () => {
  expect(files.length).toBeGreaterThan(400)
  expect(files.filter(file => replacesModule.test(readFileSync(join(root, file), 'utf8')))).toEqual([])
})

test('a planted replacement is found', () => {
  expect(replacesModule.test("vi.mock('node:fs', () => ({}))")).toBe(true)
  expect(replacesModule.test('vi.spyOn(fs, name)')).toBe(false)
})
