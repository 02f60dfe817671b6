import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'

const root = new URL('../..', import.meta.url)

/** What is no hint: names of connections to PostgreSQL, and the description of an argument. */
const noHint = /application_?name: 'switchyard|backup that switchyard backup wrote/i

test('messages name a command with ownCommand, so that it works where they are printed', () => {
  const names = createProgram().commands.map(command => command.name())
  const hint = new RegExp(`\\bswitchyard (${names.join('|')})\\b`)
  const found = globSync('src/**/*.ts', { cwd: root, exclude: ['**/*.test.ts'] }).flatMap(path =>
    readFileSync(new URL(path, root), 'utf8')
      .split('\n')
      .filter(line => hint.test(line) && !/^\s*(\*|\/\/|\/\*)/.test(line) && !noHint.test(line))
      .map(line => `${path}: ${line.trim()}`),
  )
  expect(found).toEqual([])
})
