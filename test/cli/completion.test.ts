import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Command } from 'commander'
import { beforeAll, describe, expect, test } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'
import { useResource } from '../harness/use-resource.ts'
import { runCli } from './run-cli.ts'

const run = promisify(execFile)

const directory = useResource(
  async () => ({ path: await mkdtemp(join(tmpdir(), 'switchyard-completion-')) }),
  ({ path }) => rm(path, { recursive: true }),
)

async function readScript(): Promise<string> {
  const { code, stdout, stderr } = await runCli(['completion'], { cwd: directory.path })
  expect(code, stderr).toBe(0)
  return stdout
}

describe('bash', () => {
  beforeAll(async () => {
    await writeFile(join(directory.path, 'script.bash'), await readScript())
    await writeFile(join(directory.path, 'production.yaml'), '')
  })

  /** What bash offers when Tab is pressed after these words. */
  async function offered(...words: string[]): Promise<string[]> {
    const program = `. ./script.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _switchyard; printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout } = await run('bash', ['-c', program, 'bash', 'switchyard', ...words], { cwd: directory.path })
    return stdout.split('\n').filter(Boolean)
  }

  test('commands, subcommands and options are completed', async () => {
    expect(await offered('')).toEqual(expect.arrayContaining(['start', 'key', 'completion', '--config']))
    expect(await offered('cus')).toEqual(['customer'])
    expect(await offered('key', '')).toEqual(expect.arrayContaining(['issue', 'list', 'revoke']))
    expect(await offered('key', 'issue', '--limit')).toEqual(['--limit-usd', '--limit-reset'])
  })

  test('values of options are not taken for commands', async () => {
    expect(await offered('key', 'issue', '--name', 'list', '--mod')).toEqual(['--models'])
    expect(await offered('key', 'issue', '--name', '')).toEqual([])
  })

  test('files and known values are completed', async () => {
    expect(await offered('start', '--config', 'prod')).toEqual(['production.yaml'])
    expect(await offered('restore', 'prod')).toEqual(['production.yaml'])
    expect(await offered('restore', '--che')).toEqual(['--check'])
    expect(await offered('key', 'list', 'prod')).toEqual([])
    expect(await offered('--config', 'production.yaml', 'doc')).toEqual(['doctor'])
    expect(await offered('hoster', 'price', '--features', 'im')).toEqual(['images'])
  })
})

test('the script has every command and every option', async () => {
  const script = await readScript()
  for (const { path, command } of commandsBelow(createProgram(), '')) {
    expect(script, path).toContain(path)
    for (const { long } of command.options) expect(script, path).toContain(long)
  }
})

function commandsBelow(command: Command, path: string): { path: string; command: Command }[] {
  return command.commands.flatMap(inner => {
    const innerPath = `${path} ${inner.name()}`
    return [{ path: innerPath, command: inner }, ...commandsBelow(inner, innerPath)]
  })
}
