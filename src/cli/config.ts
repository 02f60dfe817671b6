import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { stringify } from 'yaml'
import { noteAction } from '../base/db/audit-log.ts'
import { transactionOrDryRun } from '../base/db/dry-run.ts'
import type { Sql } from '../base/db/pool.ts'
import { providerSecrets } from '../base/domain/provider-secrets.ts'
import type { SealingKeys } from '../base/domain/sealing-keys.ts'
import { SupplyError } from '../base/domain/supply-error.ts'
import { systemErrorText } from '../base/runtime/error-message.ts'
import { isJsonObject, type JsonObject } from '../base/runtime/json-object.ts'
import {
  type Difference,
  differencesOf,
  isElsewhere,
  listProviders,
  lockProvider,
  openProviderSecrets,
  type Provider,
  writeProvider,
} from '../market/supply/providers/providers.ts'
import { listPriceGroups } from '../money/accounts/price-groups.ts'
import { readSettingsVersion, writeSettingsVersion } from '../operator/settings-versions.ts'
import { type Config, ConfigError } from '../start/config/config.ts'
import { managedValues, merged, withManaged } from '../start/config/managed-settings.ts'
import { type DeclaredProvider, readEndpoint, readManagedFile } from '../start/config/read-endpoint.ts'
import { type DeclaredPriceGroup, readDeclaredPriceGroups } from '../wire/api/operator/price-groups.ts'
import { textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import {
  type AppliedPriceGroup,
  applyPriceGroups,
  fileEntry,
  lockPriceGroups,
  priceGroupsYaml,
} from './config-price-groups.ts'
import { Failure, UsageError } from './failure.ts'
import type { Json } from './output.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { withDatabase } from './with-database.ts'

export function configCommands(): Command {
  return createCommandGroup('config', 'Write what is managed at run time as YAML, and apply such a file', [
    exportConfig(),
    applyConfig(),
  ])
}

function exportConfig(): Command {
  return createCommand('export', 'Print the managed settings, providers and price groups as YAML, without keys', [
    'config export > providers.yaml',
    'config export --json',
  ]).action(async options => {
    const session = createSession(options)
    const { settings, providers, keys, groups } = await withDatabase(session, async pool => {
      const providers = await listProviders(pool)
      const masterKeys = await requireMasterKeys(session, pool)
      const { settings } = await readSettingsVersion(pool)
      return {
        settings,
        providers,
        groups: await listPriceGroups(pool),
        keys: providers.map(provider => Object.keys(openProviderSecrets(masterKeys, provider))),
      }
    })
    const endpoints = providers.map(({ settings }) => settings)
    const text = Object.keys(settings).length === 0 ? '' : escaped(stringify(settings, { lineWidth: 0 }))
    session.output.result(
      {
        ...(settings as Json & object),
        endpoints: endpoints as unknown as Json,
        price_groups: groups.map(fileEntry) as unknown as Json,
      },
      text + priceGroupsYaml(groups) + yamlOf(providers, keys),
    )
  })
}

/** Each provider with a comment that names its keys: `config apply` keeps those that the file does not set. */
function yamlOf(providers: readonly Provider[], keys: readonly (readonly string[])[]): string {
  if (providers.length === 0) return 'endpoints: []'
  const items = providers.map(({ settings }, index) => {
    const stored = keys[index] ?? []
    const comment = stored.length === 0 ? '' : `  # ${stored.join(', ')}: stored, and kept unless it is set here\n`
    const text = escaped(stringify([settings], { lineWidth: 0 }))
    return `${comment}${text.replaceAll(/^(?=.)/gm, '  ')}`
  })
  return `endpoints:\n${items.join('')}`.trimEnd()
}

/** Nothing that is managed stands for a variable of the environment. */
const escaped = (yaml: string) => yaml.replaceAll('${', () => '$${')

function applyConfig(): Command {
  return createCommand('apply', 'Change managed settings, providers and price groups as a YAML file says', [
    'config apply providers.yaml --dry-run',
    'config apply providers.yaml --prune --reason "New prices"',
  ])
    .argument('<file>', 'YAML as in switchyard.yaml; - reads stdin')
    .option('--dry-run', 'show what would change, and change nothing')
    .option(
      '--prune',
      'also remove managed settings and providers that the file has not, and price groups if it has price_groups',
    )
    .option('--reason <text>', 'for the audit log; default: Applied from a file.', textArgument)
    .action(async (file: string, { dryRun = false, prune = false, reason = 'Applied from a file.', ...options }) => {
      const session = createSession(options)
      const [text, where] = [readText(file), file === '-' ? 'stdin' : file]
      const managed = readManagedFile(text, where)
      const declaredGroups = readGroups(managed.priceGroups)
      const inFile = new Set(session.config.endpoints.map(({ name }) => name))
      const { settings, changes, groups } = await withDatabase(session, async pool => {
        const masterKeys = await requireMasterKeys(session, pool)
        return transactionOrDryRun(pool, dryRun, async sql => {
          if (declaredGroups !== undefined) await lockPriceGroups(sql)
          const applied = await applySettings(sql, session.config, { declared: managed.settings, reason, prune })
          const changes = await apply(sql, { declared: managed.providers, masterKeys, reason, prune })
          await noteSettings(sql, applied, reason)
          if (declaredGroups === undefined) return { settings: applied, changes, groups: [] }
          const knownTiers = tiersWith(session.config, (await readSettingsVersion(sql)).settings)
          const groups = await applyPriceGroups(sql, { declared: declaredGroups, knownTiers, reason, prune })
          return { settings: applied, changes, groups }
        })
      })
      const inLocalFile = managedValues(session.config.written)
      for (const { path } of settings.differences)
        if (inLocalFile[path] !== undefined)
          session.output.note(`${path}: switchyard.yaml declares it too, and that counts.`)
      if (managed.others.length > 0)
        session.output.note(`Not applied, because only switchyard.yaml sets it: ${managed.others.join(', ')}.`)
      for (const { name } of changes)
        if (inFile.has(name)) session.output.note(`${name}: switchyard.yaml declares it too, and that counts.`)
      session.output.result(
        {
          dry_run: dryRun,
          settings: settings as unknown as Json,
          providers: changes as unknown as Json,
          price_groups: groups as unknown as Json,
        },
        [...settingsText(settings), ...changes.map(changeText), ...groups.map(groupText)].join('\n') ||
          'The file has nothing that can be managed.',
      )
    })
}

/** Undefined: the file says nothing about price groups. Throws Failure. */
function readGroups(written: unknown): readonly DeclaredPriceGroup[] | undefined {
  if (written === undefined) return undefined
  const read = readDeclaredPriceGroups(written)
  if ('problem' in read) throw new Failure(read.problem)
  return read.groups
}

/** The account tiers of switchyard.yaml and of what is managed. */
function tiersWith({ accountTiers }: Config, settings: JsonObject): string[] {
  const managed = settings.account_tiers
  return [...Object.keys(accountTiers), ...(isJsonObject(managed) ? Object.keys(managed) : [])]
}

function groupText({ name, change, version, differences }: AppliedPriceGroup): string {
  const lines = change === 'changed' ? differences.map(differenceText) : []
  return [`price group ${name}: ${change}${change === 'unchanged' ? '' : `, version ${version}`}`, ...lines].join('\n')
}

function readText(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    throw new UsageError(`Cannot read ${file}: ${systemErrorText(error)}.`)
  }
}

interface AppliedProvider {
  readonly name: string
  readonly change: 'created' | 'changed' | 'removed' | 'unchanged'
  readonly version: number
  readonly differences: readonly Difference[]
  readonly keys_replaced: readonly string[]
}

interface AppliedSettings {
  readonly change: 'changed' | 'unchanged'
  readonly version: number
  /** By the keys of the settings. */
  readonly differences: readonly Difference[]
}

async function applySettings(
  sql: Sql,
  config: Config,
  { declared, reason, prune }: { declared: JsonObject; reason: string; prune: boolean },
): Promise<AppliedSettings> {
  const before = await readSettingsVersion(sql)
  const after = prune ? declared : merged(before.settings, declared)
  const differences = differencesOf(managedValues(before.settings), managedValues(after))
  if (differences.length === 0) return { change: 'unchanged', version: before.version, differences }
  try {
    withManaged(after, config)
  } catch (error) {
    if (error instanceof ConfigError) throw new Failure(`The settings do not fit to switchyard.yaml: ${error.message}`)
    throw error
  }
  const version = await writeSettingsVersion(sql, { version: before.version, settings: after, reason })
  return { change: 'changed', version, differences }
}

async function noteSettings(
  sql: Sql,
  { change, version, differences }: AppliedSettings,
  reason: string,
): Promise<void> {
  if (change === 'unchanged') return
  await noteAction(sql, {
    action: 'settings.changed',
    personId: null,
    subject: 'settings',
    detail: { reason, version, changes: differences },
    address: null,
  })
}

function settingsText({ change, version, differences }: AppliedSettings): string[] {
  return change === 'unchanged' ? [] : [`settings: changed, version ${version}`, ...differences.map(differenceText)]
}

interface ApplyOrder {
  readonly declared: readonly DeclaredProvider[]
  readonly masterKeys: SealingKeys
  readonly reason: string
  /** Removes what is not declared. */
  readonly prune: boolean
}

async function apply(sql: Sql, { declared, masterKeys, reason, prune }: ApplyOrder): Promise<AppliedProvider[]> {
  const applied: AppliedProvider[] = []
  // In the order of the names, as all who lock several providers.
  for (const { name, settings, secrets } of declared.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const before = await lockProvider(sql, name)
    const stored = before === undefined ? {} : openProviderSecrets(masterKeys, before)
    const moved = before?.settings != null && isElsewhere(before.settings, settings)
    const kept = moved ? secrets : { ...stored, ...secrets }
    checkEntry(
      name,
      { ...settings, ...kept },
      moved && Object.keys(stored).length > 0 && Object.keys(secrets).length === 0,
    )
    const replaced = providerSecrets.filter(key => secrets[key] !== undefined && secrets[key] !== stored[key])
    const differences = differencesOf(before?.settings ?? {}, settings)
    const isNew = before?.settings == null
    if (!isNew && differences.length === 0 && replaced.length === 0) {
      applied.push({ name, change: 'unchanged', version: before.version, differences, keys_replaced: [] })
      continue
    }
    const version = await writeProvider(sql, masterKeys, { name, settings, secrets: kept, reason })
    applied.push({ name, change: isNew ? 'created' : 'changed', version, differences, keys_replaced: replaced })
  }
  if (prune) {
    const names = new Set(declared.map(({ name }) => name))
    for (const { name } of await listProviders(sql)) {
      if (names.has(name)) continue
      const before = await lockProvider(sql, name)
      const version = await writeProvider(sql, masterKeys, { name, settings: null, secrets: {}, reason })
      const differences = differencesOf(before?.settings ?? {}, {})
      applied.push({ name, change: 'removed', version, differences, keys_replaced: [] })
    }
  }
  // Last: entries of the audit log wait for each other.
  for (const { name, change, version, differences, keys_replaced } of applied) {
    if (change === 'unchanged') continue
    await noteAction(sql, {
      action: `provider.${change}`,
      personId: null,
      subject: name,
      detail: { reason, version, changes: differences, ...(keys_replaced.length > 0 && { keys_replaced }) },
      address: null,
    })
  }
  return applied
}

/** @param lacksKey whether the address is another one, and the file sets no key for it */
function checkEntry(name: string, entry: DeclaredProvider['settings'], lacksKey: boolean): void {
  if (lacksKey)
    throw new Failure(
      `${name}: the address has changed, so the stored key is not sent there. Set the key in the file, best as \${NAME}.`,
    )
  try {
    readEndpoint(entry)
  } catch (error) {
    if (error instanceof SupplyError) throw new Failure(`${name}: ${error.message}`)
    throw error
  }
}

function changeText({ name, change, version, differences, keys_replaced }: AppliedProvider): string {
  const lines = change === 'changed' ? differences.map(differenceText) : []
  return [
    `${name}: ${change}${change === 'unchanged' ? '' : `, version ${version}`}`,
    ...lines,
    ...keys_replaced.map(key => `  ${key}: replaced`),
  ].join('\n')
}

function differenceText({ path, before, after }: Difference): string {
  const text = (value: unknown) => (value === undefined ? '-' : JSON.stringify(value))
  return `  ${path}: ${text(before)} -> ${text(after)}`
}
