import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ConfigError, loadConfig } from './config.ts'

const directory = mkdtempSync(join(tmpdir(), 'switchyard-secrets-'))
afterAll(() => rmSync(directory, { recursive: true }))

function write(name: string, text: string): string {
  const path = join(directory, name)
  writeFileSync(path, text)
  return path
}

const MASTER_KEY = 'ab'.repeat(32)
const load = (env: Record<string, string>, file?: string) => loadConfig({ env, cwd: directory, file })
const problemsOf = (env: Record<string, string>) => {
  try {
    load(env)
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n')
    throw error
  }
  throw new Error('the configuration is valid')
}

test('a secret comes from a file or a command', () => {
  const counter = join(directory, 'runs')
  const env = {
    SWITCHYARD_MASTER_KEY_FILE: write('master', `${MASTER_KEY}\n`),
    DATABASE_URL_COMMAND: `echo run >>${counter}; printf 'postgres://a:b@127.0.0.1/c\\n\\n'`,
    OPENAI_API_KEY_FILE: write('openai', 'sk-1'),
  }
  const config = load(env)
  expect(config.masterKey).toBe(MASTER_KEY)
  expect(config.databaseUrl).toBe('postgres://a:b@127.0.0.1/c')
  expect(config.detect.cloudKeys).toMatchObject({ OPENAI_API_KEY: 'sk-1' })
  // Read again: a file may have changed, and a command would stop the gateway for as long as it takes.
  write('openai', 'sk-2')
  expect(load(env).detect.cloudKeys).toMatchObject({ OPENAI_API_KEY: 'sk-2' })
  expect(load({ ...env, SWITCHYARD_DATA_COMMAND: `cat ${counter}` }).dataDir).toBe(join(directory, 'run'))
})

test('a gateway that serves runs no command', () => {
  const counter = join(directory, 'late-runs')
  const first = { OPENAI_API_KEY_COMMAND: `echo run >>${counter}; echo sk-3` }
  load(first)
  const added = { ...first, GROQ_API_KEY_COMMAND: `echo run >>${counter}; echo gsk-1` }
  expect(() => loadConfig({ env: added, cwd: directory, isServing: true })).toThrow(
    'environment: GROQ_API_KEY_COMMAND runs a command, which gives no value while the gateway serves; restart it',
  )
  const again = loadConfig({ env: first, cwd: directory, isServing: true })
  expect(again.detect.cloudKeys).toMatchObject({ OPENAI_API_KEY: 'sk-3' })
  expect(readFileSync(counter, 'utf8')).toBe('run\n')
})

test('so does what the file names', () => {
  const file = write(
    'mail.yaml',
    `smtp: { host: mail.example, from: a@mail.example, user: u, password: "$\{MAIL_PASSWORD}" }\n`,
  )
  const config = load({ MAIL_PASSWORD_FILE: write('mail', 'horse battery\n') }, file)
  expect(config.smtp?.password).toBe('horse battery')
})

test('what is not there, or there twice, is said', () => {
  const empty = write('empty', '\n')
  expect(
    problemsOf({
      DATABASE_URL: 'postgres://a@b/c',
      DATABASE_URL_FILE: empty,
      SWITCHYARD_MASTER_KEY_FILE: '/nowhere/key',
      SMTP_PASSWORD_FILE: empty,
      OPENAI_API_KEY_COMMAND: 'echo "permission denied" >&2; exit 3',
      GROQ_API_KEY_COMMAND: 'true',
      MISTRAL_API_KEY_FILE: empty,
      MISTRAL_API_KEY_COMMAND: 'echo x',
    }).sort(),
  ).toEqual(
    [
      'environment: SWITCHYARD_MASTER_KEY_FILE names /nowhere/key, which cannot be read: no such file or directory',
      `environment: SMTP_PASSWORD_FILE names ${empty}, which is empty`,
      'environment: OPENAI_API_KEY_COMMAND runs a command that failed: exit code 3',
      'environment: GROQ_API_KEY_COMMAND runs a command that printed nothing',
      'environment: MISTRAL_API_KEY_FILE is set, and so is MISTRAL_API_KEY_COMMAND; set one of them',
    ].sort(),
  )
})

test('a message has neither the command nor what it wrote: both may have a token', () => {
  expect(
    problemsOf({ OPENAI_API_KEY_COMMAND: 'echo hvs.secret >&2; TOKEN=hvs.secret; kill -9 $$' }).join(),
  ).not.toContain('hvs.secret')
})
