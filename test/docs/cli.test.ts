import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Command, CommanderError } from 'commander'
import { describe, expect, test } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'

const docs = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8')
const root = fileURLToPath(new URL('../../', import.meta.url))
const pages = globSync(['*.md', 'docs/*.md', 'docs/clients/*.md'], { cwd: root }).sort()
const commonFlags = ['--json', '--config <file>', '-h, --help']

test('docs/cli.md lists exactly the commands, with their arguments and options', () => {
  const documented = docs
    .split(/^## `/m)
    .slice(1)
    .map(section => ({
      usage: section.slice(0, section.indexOf('`')),
      rows: rowsOf(section),
    }))
  const real = commandsBelow(createProgram(), 'switchyard').map(({ usage, command }) => ({
    usage,
    rows: [
      ...command.registeredArguments.map(argument => [nameOf(argument), argument.description]),
      ...command.options
        .filter(({ flags }) => !commonFlags.includes(flags))
        .map(({ flags, description }) => [flags, description]),
    ],
  }))
  expect(documented).toEqual(real)
})

test('the description of a required option says so, in the help and in docs/cli.md', () => {
  for (const { command } of commandsBelow(createProgram(), 'switchyard')) {
    for (const { mandatory, description, flags } of command.options)
      expect(description.endsWith('; required'), flags).toBe(mandatory)
  }
})

test('docs/cli.md has the description of each command', () => {
  for (const { command } of commandsBelow(createProgram(), 'switchyard'))
    expect(docs).toContain(`${command.description()}.\n`)
})

test('every command has the common options and examples', () => {
  expect(
    rowsOf(docs.split(/^## /m).find(section => section.startsWith('Every command'))!).map(([flags]) => flags),
  ).toEqual(commonFlags)
  for (const { usage, command } of commandsBelow(createProgram(), 'switchyard')) {
    const flags = [...command.options.map(option => option.flags), '-h, --help']
    expect(flags, usage).toEqual(expect.arrayContaining(commonFlags))
    const help = helpOf(command)
    expect(help, usage).toMatch(/\nExamples:\n {2}\$ \S*( ?)switchyard'? /)
  }
})

describe.each(pages)('%s', page => {
  const text = readFileSync(`${root}${page}`, 'utf8')

  test('the commands in its blocks can be run as they stand', async () => {
    const wrong: string[] = []
    for (const words of commandLinesOf(text)) {
      const problem = await problemOf(words)
      if (problem !== null) wrong.push(`${words.join(' ')}: ${problem}`)
    }
    expect(wrong).toEqual([])
  })

  test('the commands in its sentences exist, with the options that are named', async () => {
    const named = [...text.matchAll(/`(?:npx )?switchyard ([a-z][^`]*)`/g)].map(([, words]) => words!.split(/\s+/))
    const wrong: string[] = []
    for (const words of named) if (!(await isNamedRight(words))) wrong.push(words.join(' '))
    expect(wrong).toEqual([])
  })
})

test('a command that is wrong is found', async () => {
  expect(commandLinesOf('```sh\n$ npx switchyard key issue "a b" --name x | cat   # a note\n```')).toEqual([
    ['key', 'issue', 'a b', '--name', 'x'],
  ])
  expect(await problemOf(['key', 'issue', 'ada@example.com'])).toMatch(/--name/)
  expect(await problemOf(['key', 'issue', 'ada@example.com', '--name', 'laptop'])).toBeNull()
  expect(await isNamedRight(['key', 'issue', '--limit-usd', '5'])).toBe(true)
  expect(await isNamedRight(['hoster', 'key', '<hoster>', '--none'])).toBe(true)
  expect(await isNamedRight(['key', 'make'])).toBe(false)
  expect(await isNamedRight(['key', 'issue', '--limit', '5'])).toBe(false)
})

/** Returns the words of each `switchyard` command in fenced blocks, without `switchyard`. */
function commandLinesOf(text: string): string[][] {
  const blocks = [...text.matchAll(/^( *)```(?:sh|bash)?\n([\s\S]*?)^\1```$/gm)].map(([, , block]) => block!)
  return blocks
    .flatMap(block => block.split('\n'))
    .map(line => /^\s*(?:\$ )?(?:npx )?(?:\S+\/bin\/)?switchyard (?=[a-z])(.+)$/.exec(line)?.[1])
    .filter(line => line !== undefined && !line.includes('\\'))
    .map(line => wordsOf(line!))
}

/** Splits as a shell does, up to a comment, a pipe or another command. */
function wordsOf(line: string): string[] {
  const command = /^(?:"[^"]*"|'[^']*'|<[a-z-]+>|[^"'#|&;<>])*/.exec(line)![0]
  return [...command.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) => word.replaceAll(/["']/g, ''))
}

/** Returns what commander says about a command that it does not take; null if it would run. */
async function problemOf(words: string[]): Promise<string | null> {
  const program = createProgram()
  const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)]
  for (const command of all(program)) {
    command.exitOverride().configureOutput({ writeErr: () => {}, outputError: () => {} })
    if (command.commands.length === 0 || command.registeredArguments.length > 0) command.action(() => {})
  }
  try {
    await program.parseAsync(words, { from: 'user' })
    return null
  } catch (error) {
    if (error instanceof CommanderError) return error.message
    throw error
  }
}

/** Sentences name commands without their arguments, so only the names and the options are compared. */
async function isNamedRight(words: string[]): Promise<boolean> {
  let command = createProgram()
  let at = 0
  for (; command.commands.length > 0; at++) {
    const inner = command.commands.find(each => each.name() === words[at])
    // A group of commands, such as `switchyard alert`, or one with a command that may be left out.
    if (inner === undefined) return at === words.length || !/unknown/.test((await problemOf(words)) ?? '')
    command = inner
  }
  const flags = words.slice(at).filter(word => word.startsWith('--'))
  return flags.every(flag => command.options.some(({ long }) => long === flag) || flag === '--help')
}

/** Returns the commands without subcommands, in the order of the help. */
function commandsBelow(command: Command, path: string): { usage: string; command: Command }[] {
  const { commands, registeredArguments } = command
  const inner = commands.flatMap(each => commandsBelow(each, `${path} ${each.name()}`))
  // Only a group takes no argument besides its commands.
  if (commands.length > 0 && registeredArguments.length === 0) return inner
  return [{ usage: [path, ...registeredArguments.map(nameOf)].join(' '), command }, ...inner]
}

function nameOf(argument: Command['registeredArguments'][number]): string {
  return argument.required ? `<${argument.name()}>` : `[${argument.name()}]`
}

function rowsOf(section: string): string[][] {
  return [...section.matchAll(/^\| `([^`]+)` +\| ([^|]+?) +\|$/gm)].map(([, name, meaning]) => [name!, meaning!])
}

function helpOf(command: Command): string {
  let help = ''
  command.configureOutput({
    writeOut: text => {
      help += text
    },
  })
  command.outputHelp()
  return help
}
