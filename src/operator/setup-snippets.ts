import type { SetupReport } from '../wire/api/operator/setup.ts'

/** What to add to switchyard.yaml for a step of the setup, with examples as values. */
export const setupSnippets: Readonly<Partial<Record<SetupReport['steps'][number]['step'], string>>> = {
  mail: `smtp:
  host: mail.example.com
  user: gateway@example.com
  password: \${SMTP_PASSWORD} # set it in the environment
  from: Switchyard <gateway@example.com>
`,
  payments: `payments:
  manual:
    instructions: Pay {amount} to the account 12345 and quote {reference}.
`,
  backups: `backup:
  to: /var/backups/switchyard # a directory that exists, best on another disk
`,
  tls: `server:
  public_base_url: https://gateway.example.com
`,
}
