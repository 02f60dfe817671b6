import type { Command } from 'commander'
import { ConfigError } from '../../start/config/config.ts'
import { configuredOffers } from '../../start/config/configured-offers.ts'
import { createCommand, createCommandOutput, createSession, type Session } from '../command.ts'
import { Failure } from '../failure.ts'
import { table } from '../table.ts'
import { checkContexts } from './check-contexts.ts'
import { checkDatabase } from './check-database.ts'
import { checkEndpoints } from './check-endpoints.ts'
import { checkDataDirectory, checkJournals, checkPort, checkPublicUrl } from './check-machine.ts'
import { type Finding, runCheck } from './finding.ts'

export function doctorCommand(): Command {
  return createCommand(
    'doctor',
    'Check everything that startup needs, without changing anything; fails if a check fails',
    ['doctor', 'doctor --json --config production.yaml'],
  ).action(async options => {
    const output = createCommandOutput(options)
    const findings = await runChecks(options)
    const failed = findings.filter(({ ok, skipped }) => !ok && skipped !== true)
    output.result(
      { ok: failed.length === 0, checks: findings.map(finding => ({ ...finding })) },
      table(
        ['state', 'check', 'finding'],
        findings.map(finding => [stateOf(finding), finding.check, finding.detail]),
        '',
      ),
    )
    if (failed.length > 0) throw new Failure(`${failed.length} of ${findings.length} checks failed.`)
  })
}

function stateOf({ ok, warning, skipped }: Finding): string {
  if (skipped) return 'skipped'
  if (!ok) return 'FAILED'
  return warning ? 'WARNING' : 'ok'
}

async function runChecks(options: { json?: true; config?: string }): Promise<Finding[]> {
  let session: Session
  try {
    session = createSession(options)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.message.split('\n').map(detail => ({ check: 'configuration', ok: false, detail }))
  }
  const { config } = session
  const dataDirectory = await runCheck('data directory', async () => checkDataDirectory(config))
  const findings: Finding[] = [
    { check: 'configuration', ok: true, detail: config.configFile ?? 'no switchyard.yaml; the defaults apply' },
    ...checkPublicUrl(config),
    dataDirectory,
    ...(dataDirectory.ok ? checkJournals(config) : []),
  ]
  const [port, database, endpoints, contexts] = await Promise.all([
    runCheck('port', () => checkPort(config)),
    checkDatabase(session, dataDirectory.ok),
    checkEndpoints(configuredOffers(config)),
    checkContexts(config.endpoints),
  ])
  return [...findings, port, ...database, ...endpoints, ...contexts]
}
