import { plural, t } from '@lingui/core/macro'
import { Button, PasswordInput, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { type HosterMemberships, hosterMembershipsQuery } from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { exactUsd, roundUsd } from '../../format/usd-text.ts'
import { Facts } from '../../parts/Facts.tsx'
import { Field, FormFields } from '../../parts/FormFields.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { useHosterMemberships } from '../../shell/use-hoster.ts'
import { HosterLinks } from './HosterLinks.tsx'
import styles from './hoster.module.css'

const ways = [
  {
    value: 'agent',
    label: t`An agent connects to the gateway`,
    description: t`For a machine at home or behind a firewall: Ollama, llama.cpp, vLLM, LM Studio. No open port is needed.`,
  },
  {
    value: 'direct',
    label: t`The gateway connects to an https address`,
    description: t`For a server with a public address and OpenAI's API.`,
  },
] as const

/** Applies as a hoster. The checklist of the new hoster goes on from here. */
export function Apply() {
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const [transport, setTransport] = useState<'agent' | 'direct'>('agent')
  const [baseUrl, setBaseUrl] = useState('')
  const [apiKey, setApiKey] = useState('')
  const hosters = useHosterMemberships() ?? []
  const { data: { terms } = {} } = useQuery(hosterMembershipsQuery)
  const apply = useWrite<void, HosterMemberships>(
    () => ({
      method: 'POST',
      path: 'hosters',
      body: {
        name: name.trim(),
        transport,
        ...(transport === 'direct' && { base_url: baseUrl.trim(), ...(apiKey !== '' && { api_key: apiKey }) }),
      },
    }),
    {
      areas: ['hosters'],
      done: t`${name.trim()} has applied.`,
      onDone({ id }) {
        // Only the answer to an application names a new hoster.
        if (id !== undefined) void navigate({ to: '/h/$hosterId', params: { hosterId: id } })
      },
      showsError: true,
    },
  )
  return (
    <Page title={t`Become a hoster`}>
      <Panel title={t`Rent out models`}>
        <div className={styles.wide}>
          <p>{t`A hoster serves requests of customers with its own models and sets its own prices. It earns its share of each charge. Next come a proof of the server, the models with their prices, and test requests.`}</p>
          {terms !== undefined && <TermsOfOperator terms={terms} />}
          <form
            className={styles.form}
            onSubmit={event => {
              event.preventDefault()
              apply.mutate()
            }}
          >
            <FormFields error={apply.error}>
              <Field name="name">
                <TextInput
                  label={t`Name`}
                  description={t`Customers see it.`}
                  required
                  maxLength={200}
                  value={name}
                  onChange={event => setName(event.currentTarget.value)}
                />
              </Field>
              <Select
                label={t`How do requests reach your server?`}
                description={ways.find(({ value }) => value === transport)!.description}
                data={ways.map(({ value, label }) => ({ value, label }))}
                value={transport}
                onChange={value => setTransport((value ?? 'agent') as typeof transport)}
              />
              {transport === 'direct' && (
                <>
                  <Field name="base_url">
                    <TextInput
                      label={t`Address`}
                      description={t`Up to and including /v1.`}
                      placeholder="https://models.example.com/v1"
                      required
                      value={baseUrl}
                      onChange={event => setBaseUrl(event.currentTarget.value)}
                    />
                  </Field>
                  <Field name="api_key">
                    <PasswordInput
                      label={t`Key that your server expects`}
                      description={t`Empty if it needs none. It is stored encrypted.`}
                      autoComplete="off"
                      value={apiKey}
                      onChange={event => setApiKey(event.currentTarget.value)}
                    />
                  </Field>
                </>
              )}
            </FormFields>
            <div className={styles.buttons}>
              <Button type="submit" loading={apply.isPending}>{t`Apply`}</Button>
            </div>
          </form>
        </div>
      </Panel>
      {hosters.length > 0 && (
        <Panel title={t`Your hosters`}>
          <HosterLinks hosters={hosters} />
        </Panel>
      )}
    </Page>
  )
}

function TermsOfOperator({ terms }: { terms: HosterMemberships['terms'] }) {
  return (
    <Facts
      facts={{
        [t`You earn`]: t`${terms.share_percent} % of each charge`,
        [t`You are paid`]: t`${plural(terms.hold_days, { one: '# day', other: '# days' })} after a request, from ${roundUsd(terms.min_payout_usd)} USD on`,
        [t`Highest price`]: t`${exactUsd(terms.max_input_usd_per_million)} USD for input, ${exactUsd(terms.max_output_usd_per_million)} USD for output, per million tokens`,
      }}
    />
  )
}
