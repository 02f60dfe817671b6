import { quoteForShell } from '../../base/runtime/quote-for-shell.ts'
import type { CompletedCommand } from './command-tree.ts'

// The scripts of bash, zsh and fish all compare `<path> <word>` with quoted patterns of a case statement.

/** Returns a pattern for each command and group: `' key'`, `' key issue'`. */
export function commandPatterns(tree: readonly CompletedCommand[]): string[] {
  return tree.filter(({ path }) => path !== '').map(({ path }) => quoteForShell(path))
}

/** Returns a pattern for each command with a file as an argument. */
export function fileCommandPatterns(tree: readonly CompletedCommand[]): string[] {
  return tree.filter(({ takesFile }) => takesFile).map(({ path }) => quoteForShell(path))
}

/** The patterns of the options with a value: `' key issue --name'`. */
export interface OptionPatterns {
  readonly all: readonly string[]
  /** The options with a file as their value. */
  readonly files: readonly string[]
  /** The options with known values. */
  readonly choices: readonly { readonly pattern: string; readonly values: readonly string[] }[]
}

export function optionPatterns(tree: readonly CompletedCommand[]): OptionPatterns {
  const options = tree.flatMap(({ path, options }) =>
    options.flatMap(({ flags, takes }) => flags.map(flag => ({ pattern: quoteForShell(`${path} ${flag}`), takes }))),
  )
  const withValue = options.filter(({ takes }) => takes !== 'nothing')
  return {
    all: withValue.map(({ pattern }) => pattern),
    files: withValue.filter(({ takes }) => takes === 'file').map(({ pattern }) => pattern),
    choices: withValue.flatMap(({ pattern, takes }) => (Array.isArray(takes) ? [{ pattern, values: takes }] : [])),
  }
}
