import type { Command } from 'commander'
import { baseUrlOf } from '../config/base-url.ts'
import { usdText } from '../domain/money.ts'
import { isEmail } from '../runtime/email.ts'
import { ensureFirstRun } from '../start/first-run.ts'
import { curlLine, exampleModelOf } from '../start/welcome.ts'
import { emailArgument } from './arguments.ts'
import { Failure } from './failure.ts'
import { type Session, sessionOf, verb } from './verb.ts'
import { withDatabase } from './with-database.ts'

export function initCommand(): Command {
  return verb('init', 'Create the database, the operator, a first customer and its API key, without starting', [
    'init',
    'init --email ada@example.com --json',
  ])
    .option('--email <email>', 'of the operator and first customer; without it, SWITCHYARD_INIT_EMAIL', emailArgument)
    .action(async options => {
      const session = sessionOf(options)
      const { config, output } = await choosing(session, options.email)
      const made = await withDatabase({ config, output }, pool => ensureFirstRun({ pool, config }), { mayCreate: true })
      if (!made) {
        output.result({ created: false }, 'This installation was set up before; nothing was changed.')
        output.note('Another API key: switchyard key issue <customer> --name <name>')
        return
      }
      const credit = usdText(made.creditNanos)
      const model = exampleModelOf(config)
      output.result(
        {
          created: true,
          email: made.email,
          customer_id: made.customerId,
          api_key: made.apiKey,
          balance_usd: credit,
          base_url: `${baseUrlOf(config)}/v1`,
        },
        [
          `Created the customer ${made.email} with ${credit} USD of credit and this API key, shown only now:`,
          '',
          `  ${made.apiKey}`,
          '',
          'Start with npm start, then try it:',
          '',
          `  ${curlLine(baseUrlOf(config), made.apiKey, model)}`,
        ].join('\n'),
      )
    })
}

/** The session with what was chosen: on the command line, in the environment, or by answering. */
async function choosing(session: Session, email: string | undefined): Promise<Session> {
  const { config, output } = session
  if (email !== undefined) return { output, config: { ...config, initEmail: email } }
  if (!output.interactive) return session
  const { cancel, intro, isCancel, text } = await import('@clack/prompts')
  intro('Setting up Switchyard')
  const database = config.databaseUrl === null ? `a PostgreSQL of its own in ${config.dataDir}` : 'DATABASE_URL'
  const answer = await text({
    message: `Data goes to ${database}. Your e-mail address?`,
    initialValue: config.initEmail,
    validate: given => (isEmail(given ?? '') ? undefined : 'That is not an e-mail address.'),
  })
  if (isCancel(answer)) {
    cancel('Nothing was changed.')
    throw new Failure('Cancelled.')
  }
  return { output, config: { ...config, initEmail: answer } }
}
