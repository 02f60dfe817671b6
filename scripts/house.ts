// Prints figures of the layout of a checkout: `npm run house -- [DIRECTORY] [DIRECTORY]...`, one column for each. Another commit is compared with
// `git worktree add DIRECTORY COMMIT`.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { countNonNull } from './non-null-assertions.ts'

const { positionals } = parseArgs({ allowPositionals: true })
const columns = (positionals.length > 0 ? positionals : ['.']).map(directory => figuresOf(resolve(directory)))
for (const name of Object.keys(columns[0]!))
  console.log(name.padEnd(48), ...columns.map(figures => String(figures[name] ?? '-').padStart(10)))

function figuresOf(root: string): Record<string, number | string> {
  const read = (file: string) => readFileSync(join(root, file), 'utf8')
  const linesOf = (text: string) => text.split('\n').length - 1
  const all = globSync('src/**/*.ts', { cwd: root })
  const files = all.filter(file => !file.endsWith('.test.ts'))
  const lengths = files.map(file => linesOf(read(file))).sort((a, b) => a - b)
  const folders = [...new Set(files.map(file => file.split('/')[1]!).filter(name => !name.includes('.')))]
  const arrows = new Set(
    files.flatMap(file => importsOf(root, file).map(other => `${folderOf(file)} ${folderOf(other)}`)),
  )
  const sql = globSync('{migrations,sql/migrations,sql/functions/**}/*.sql', { cwd: root }).sort()
  const functions = sql.flatMap(file => functionsOf(read(file)))
  const last = new Map(functions.map(each => [each.name, each]))
  const tests = globSync('{test,src}/**/*.test.{ts,tsx}', { cwd: root })
  return {
    'source files': files.length,
    'lines of a source file, median': lengths[Math.floor(lengths.length / 2)]!,
    'source files of at most 12 lines': lengths.filter(lines => lines <= 12).length,
    'folders at the top of src': folders.length,
    'arrows between them': [...arrows].filter(arrow => new Set(arrow.split(' ')).size === 2).length,
    'SQL files': sql.length,
    'SQL lines': sql.reduce((sum, file) => sum + linesOf(read(file)), 0),
    'SQL functions': last.size,
    'lines of SQL functions that were replaced later': functions
      .filter(each => last.get(each.name) !== each)
      .reduce((sum, { lines }) => sum + lines, 0),
    'longest SQL function': Math.max(...[...last.values()].map(({ lines }) => lines)),
    'non-null assertions in src': files.reduce((sum, file) => sum + countNonNull(read(file)), 0),
    '"as never" in the console': globSync('console/src/**/*.{ts,tsx}', { cwd: root }).reduce(
      (sum, file) => sum + read(file).split(/\bas never\b/).length - 1,
      0,
    ),
    'test files': tests.length,
  }
}

function folderOf(file: string): string {
  return file.split('/')[1]!
}

function importsOf(root: string, file: string): string[] {
  return [...readFileSync(join(root, file), 'utf8').matchAll(/from '(\.[^']+\.ts)'/g)]
    .map(([, path]) => join(dirname(file), path!))
    .filter(path => path.startsWith('src/') && existsSync(join(root, path)))
}

/** The functions of an SQL file, with the lines from CREATE to the end of the body. */
function functionsOf(text: string): { name: string; lines: number }[] {
  return [...text.matchAll(/^CREATE (?:OR REPLACE )?FUNCTION (\w+)[\s\S]*?\$\$[\s\S]*?\$\$;/gm)].map(
    ([match, name]) => ({
      name: name!,
      lines: match.split('\n').length,
    }),
  )
}
