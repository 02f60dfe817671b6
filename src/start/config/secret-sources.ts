import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import type { ConfigProblem } from './read-yaml.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** Whether a variable is set. An empty one, as in `PORT= npm start`, is not. */
export function isSet(env: Environment, name: string): boolean {
  return env[name] !== undefined && env[name] !== ''
}

/**
 * Returns the environment with each of `names` that it gives by `NAME_FILE`, the path of a file with the value, or by `NAME_COMMAND`, a line
 * for sh that prints it. Blanks and line breaks at the end are not part of a value. Adds to `problems` what cannot be read, and names that are
 * given by both.
 *
 * A file is read at each call. A command may take seconds, in which nothing else runs: its value is kept, and a process that serves runs none.
 *
 * @param isServing a command that has given no value before is a problem
 */
export function withSecretSources(
  env: Environment,
  names: Iterable<string>,
  problems: ConfigProblem[],
  isServing = false,
): Environment {
  const found: Record<string, string> = {}
  for (const name of names) {
    // A plain value counts: its environment may have a file of that name for another program.
    if (env[name]) continue
    const [byFile, byCommand] = [`${name}_FILE`, `${name}_COMMAND`]
    const [path, line] = [env[byFile] ?? '', env[byCommand] ?? '']
    const problemOf = (key: string) => (message: string) =>
      problems.push({ where: 'environment', line: null, key, message })
    if (path !== '' && line !== '') problemOf(byFile)(`is set, and so is ${byCommand}; set one of them`)
    else if (path !== '') found[name] = readSecretFile(path, problemOf(byFile))
    else if (line !== '') found[name] = valueOfCommand(line, problemOf(byCommand), isServing)
  }
  return { ...env, ...found }
}

/** Returns the names of the variables in the text of a configuration file. */
export function variablesIn(text: string): string[] {
  return [...text.matchAll(/(?<=\$\{)[A-Za-z_][A-Za-z0-9_]*/g)].map(([name]) => name)
}

function readSecretFile(path: string, problem: (message: string) => void): string {
  try {
    const value = readFileSync(path, 'utf8').trimEnd()
    if (value === '') problem(`names ${path}, which is empty`)
    return value
  } catch (error) {
    problem(`names ${path}, which cannot be read: ${systemErrorText(error)}`)
    return ''
  }
}

const valuesByCommand = new Map<string, string>()

function valueOfCommand(line: string, problem: (message: string) => void, isServing: boolean): string {
  const known = valuesByCommand.get(line)
  if (known !== undefined) return known
  if (isServing) {
    problem('runs a command, which gives no value while the gateway serves; restart it')
    return ''
  }
  try {
    const value = execFileSync('sh', ['-c', line], { ...COMMAND_OPTIONS }).trimEnd()
    if (value === '') problem('runs a command that printed nothing')
    else valuesByCommand.set(line, value)
    return value
  } catch (error) {
    problem(`runs a command that failed: ${whyItFailed(error as CommandError)}`)
    return ''
  }
}

/** What execFileSync throws. Its message has the whole command, which may have a token; so may what the command wrote. */
interface CommandError {
  readonly code?: string
  readonly status: number | null
  readonly signal: string | null
}

function whyItFailed({ code, status, signal }: CommandError): string {
  if (code === 'ETIMEDOUT') return `it took longer than ${COMMAND_OPTIONS.timeout / 1000} s`
  return signal === null ? `exit code ${status}` : `ended by ${signal}`
}

const COMMAND_OPTIONS = { encoding: 'utf8', timeout: 30_000, stdio: 'pipe' } as const
