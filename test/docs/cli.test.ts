import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'

const docs = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8')
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

/** Returns the commands without subcommands, in the order of the help. */
function commandsBelow(command: Command, path: string): { usage: string; command: Command }[] {
  if (command.commands.length > 0) {
    return command.commands.flatMap(inner => commandsBelow(inner, `${path} ${inner.name()}`))
  }
  return [{ usage: [path, ...command.registeredArguments.map(nameOf)].join(' '), command }]
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
