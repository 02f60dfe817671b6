import type { Command } from 'commander'
import { usdText } from '../base/domain/money.ts'
import { isEmail } from '../base/runtime/email.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { baseUrlOf } from '../start/config/base-url.ts'
import { ensureFirstRun } from '../start/first-run.ts'
import { curlLine, exampleModel } from '../start/welcome.ts'
import { emailArgument } from './arguments.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { Failure } from './failure.ts'
import { withDatabase } from './with-database.ts'

export function initCommand(): Command {
  return createCommand(
    'init',
    'Create the database, the operator, a first customer and its API key, without starting the gateway',
    ['init', 'init --email ada@example.com --json'],
  )
    .option(
      '--email <email>',
      'e-mail of the operator and first customer; default: SWITCHYARD_INIT_EMAIL',
      emailArgument,
    )
    .action(async options => {
      const { config, output } = await chooseEmail(createSession(options), options.email)
      const created = await withDatabase({ config, output }, pool => ensureFirstRun({ pool, config }), {
        mayCreate: true,
      })
      if (!created) {
        output.result({ created: false }, 'This installation is already set up. Nothing was changed.')
        output.note(`Issue another API key with: ${ownCommand('key issue <customer> --name <name>')}`)
        return
      }
      const credit = usdText(created.creditNanos)
      const model = exampleModel(config)
      output.result(
        {
          created: true,
          email: created.email,
          customer_id: created.customerId,
          api_key: created.apiKey,
          balance_usd: credit,
          base_url: `${baseUrlOf(config)}/v1`,
        },
        [
          `Created the customer ${created.email} with ${credit} USD of credit and this API key, which is shown only once:`,
          '',
          `  ${created.apiKey}`,
          '',
          'Start the gateway, then try it:',
          '',
          `  ${curlLine(baseUrlOf(config), created.apiKey, model)}`,
        ].join('\n'),
      )
      output.note(
        `To use the console, set the password of ${created.email} with the link of: ${ownCommand('operator link')}`,
      )
    })
}

/**
 * Sets the e-mail address from the command line, or asks the operator on a terminal. Otherwise the configured
 * address stays.
 */
async function chooseEmail(session: Session, email: string | undefined): Promise<Session> {
  const { config, output } = session
  if (email !== undefined) return { output, config: { ...config, initEmail: email } }
  if (!output.interactive) return session
  const { cancel, intro, isCancel, log, text } = await import('@clack/prompts')
  intro('Setting up Switchyard')
  const database =
    config.databaseUrl === null ? `an embedded PostgreSQL in ${config.dataDir}` : 'the database of DATABASE_URL'
  log.info(`Switchyard stores its data in ${database}.`)
  const answer = await text({
    message: 'What is your e-mail address?',
    // Shown until the first key press, and used if nothing is typed.
    placeholder: config.initEmail,
    defaultValue: config.initEmail,
    validate: value => (!value || isEmail(value) ? undefined : 'That is not an e-mail address.'),
  })
  if (isCancel(answer)) {
    cancel('Nothing was changed.')
    throw new Failure('Cancelled.')
  }
  return { output, config: { ...config, initEmail: answer } }
}
