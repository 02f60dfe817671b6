import type { Command } from 'commander'
import { audit } from '../ledger/audit.ts'
import { Failure } from './failure.ts'
import { table } from './output.ts'
import { noun, sessionOf, verb } from './verb.ts'
import { withDatabase } from './with-database.ts'

export function ledgerCommands(): Command {
  return noun('ledger', 'Check the money', [auditCommand()])
}

function auditCommand(): Command {
  return verb('audit', 'Check every invariant of the money; fails if one is violated', [
    'ledger audit',
    'ledger audit --json',
  ]).action(async options => {
    const session = sessionOf(options)
    const findings = await withDatabase(session, audit)
    const violated = findings.filter(({ violations }) => violations > 0)
    session.output.result(
      { ok: violated.length === 0, checks: findings.map(finding => ({ ...finding, examples: [...finding.examples] })) },
      table(
        ['check', 'violations', 'examples'],
        findings.map(({ name, violations, examples }) => [name, String(violations), examples.join(' ')]),
        '',
      ),
    )
    if (violated.length > 0) {
      throw new Failure(
        `${violated.length} of ${findings.length} checks are violated. Stop selling until it is understood why.`,
      )
    }
    session.output.note(`All ${findings.length} checks hold.`)
  })
}
