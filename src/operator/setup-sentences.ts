/** What the steps of the setup say, and their tests. */
export const setupSentences = {
  'setup.mail.none': 'No mail server is set, so links and alerts reach nobody.',
  'setup.mail.ready': 'A mail server is set.',
  'setup.mail.todo':
    'Set smtp.host, smtp.user, smtp.password and smtp.from in switchyard.yaml, then restart the gateway: docs/config.md.',
  'setup.mail.sent': 'The mail server took a mail to {email}. Look whether it arrives.',
  'setup.mail.refused': 'The mail server did not take the mail. The log of the gateway says why.',
  'setup.payments.none': 'Customers cannot buy credit. You can grant it, and make vouchers.',
  'setup.payments.ready': 'Customers pay by: {names}.',
  'setup.payments.todo':
    'Set a bank account or a payment service under payments in switchyard.yaml, then restart the gateway: docs/payments.md.',
  'setup.payments.nobody': 'No payment service is set that could be asked.',
  'setup.payments.live': '{name}: answers, in live mode; events are checked with a secret.',
  'setup.payments.live.no_webhook':
    '{name}: answers, in live mode; no webhook secret is set, so payments are seen late.',
  'setup.payments.test': '{name}: answers, in test mode; events are checked with a secret.',
  'setup.payments.test.no_webhook':
    '{name}: answers, in test mode; no webhook secret is set, so payments are seen late.',
  'setup.payments.refused': '{name}: does not work. {error}',
  'setup.provider.none': 'Only the demo model is offered.',
  'setup.provider.one': 'One model is offered.',
  'setup.provider.ready': '{count} models are offered.',
  'setup.provider.todo': 'Add a provider: paste its key, test it, and choose the models.',
  'setup.backups.other': 'Backups are made by other means.',
  'setup.backups.none': 'No backup was made yet.',
  'setup.backups.last': 'The last backup began at {at}.',
  'setup.backups.todo': 'Set backup.to, or run "{command}" every day: docs/operating.md.',
  'setup.tls.ready': 'People use {url}.',
  'setup.tls.local': 'People use {url}, which only this machine reaches.',
  'setup.tls.none': 'People use {url}: others can read passwords and keys on their way.',
  'setup.tls.todo':
    'Put a proxy with TLS in front, such as Caddy, and set server.public_base_url to its https address: docs/operating.md.',
} as const
