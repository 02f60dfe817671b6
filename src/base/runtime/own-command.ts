import { existsSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { quoteForShell } from './quote-for-shell.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '')
/** One for each directory and PATH: help texts ask for it a hundred times. */
const programs = new Map<string, string>()

/**
 * Returns a command line of Switchyard for a message, as it works in the directory and shell of the operator.
 *
 * @param words the words after the name of the program: `key list`
 */
export function ownCommand(words: string): string {
  // biome-ignore lint/style/noProcessEnv: messages need no setting, but the PATH of the operator.
  const [cwd, path] = [process.cwd(), process.env.PATH ?? '']
  const key = `${cwd}\n${path}`
  const program = programs.get(key) ?? programIn({ root, cwd, path })
  programs.set(key, program)
  return `${program} ${words}`
}

/**
 * Returns what starts the program of the package in `root`: `switchyard` if PATH leads to it, `npx switchyard` where
 * npm finds it, else its absolute path. Elsewhere npx would run another package of that name from the registry.
 */
export function programIn({ root, cwd, path }: { root: string; cwd: string; path: string }): string {
  const program = join(root, 'bin', 'switchyard')
  // npm adds directories in node_modules to the PATH of what it runs, which the operator's shell does not have.
  const found = path
    .split(delimiter)
    .filter(directory => directory !== '' && !directory.split(sep).includes('node_modules'))
    .map(directory => join(directory, 'switchyard'))
    .find(existsSync)
  if (found !== undefined && isSameFile(found, program)) return 'switchyard'
  // A clone, or a directory in which the package was installed.
  const modules = dirname(dirname(root))
  const project = modules.endsWith(`${sep}node_modules`) ? dirname(modules) : root
  return resolve(cwd) === project ? 'npx switchyard' : quoteForShell(program)
}

function isSameFile(one: string, other: string): boolean {
  try {
    return realpathSync(one) === realpathSync(other)
  } catch {
    return false
  }
}
