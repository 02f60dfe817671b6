import { t } from '@lingui/core/macro'
import { Checkbox, Select, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { HosterOffers } from '#api/hoster-console.ts'
import type { ManifestModel } from '#api/hoster-manifest.ts'
import { exactUsd } from '../../format/usd-text.ts'
import { AmountField } from '../../parts/AmountField.tsx'
import { Field } from '../../parts/FormFields.tsx'
import styles from './hoster.module.css'
import { otherTasks } from './manifest-edits.ts'
import type { ModelInput } from './model-input.ts'

type Feature = NonNullable<ManifestModel['supported_features']>[number]

/** The names that the list shows. A record, so that the compiler misses none. */
const quantizationNames: Readonly<Record<NonNullable<ManifestModel['quantization']>, string>> = {
  int4: 'int4',
  int8: 'int8',
  fp4: 'fp4',
  fp6: 'fp6',
  fp8: 'fp8',
  fp16: 'fp16',
  bf16: 'bf16',
  fp32: 'fp32',
  unknown: t`unknown`,
}

const featureNames: Readonly<Record<Feature, string>> = {
  tools: t`Tools`,
  json_schema: t`Answers in a JSON schema`,
  images: t`Images in prompts`,
  audio: t`Audio in prompts`,
  chat: t`Chat`,
  completions: t`Text completions`,
  embeddings: t`Embeddings`,
  dimensions: t`Embeddings of a chosen length`,
  rerank: t`Rerank`,
}

/** The fields of a model. @param props.path of the model in the manifest */
export function ModelFields({
  input,
  onChange,
  isNew,
  path,
  rules,
}: {
  input: ModelInput
  onChange: (input: ModelInput) => void
  isNew: boolean
  path: string
  rules: Pick<HosterOffers['rules'], 'max_input_usd_per_million' | 'max_output_usd_per_million'>
}) {
  type TypedField = Exclude<keyof ModelInput, 'features'>
  const text = (name: TypedField) => ({
    value: input[name],
    onChange: (event: { currentTarget: { value: string } }) =>
      onChange({ ...input, [name]: event.currentTarget.value }),
  })
  const price = (name: TypedField, highest?: number) => ({
    value: input[name],
    description:
      highest === undefined ? t`USD per million tokens` : t`USD per million tokens, at most ${exactUsd(highest)}`,
    onText: (typed: string) => onChange({ ...input, [name]: typed }),
  })
  const isChat = !otherTasks.some(task => input.features.includes(task))
  // Open at first if any of the fields inside is filled in.
  const [isMoreOpen] = useState(() => hasMoreTerms(input))
  const choices = Object.entries(featureNames).filter(
    ([feature]) => feature !== 'chat' || !isChat || input.features.includes('chat'),
  )
  return (
    <>
      {isNew && (
        <Field name={`${path}.id`}>
          <TextInput
            label={t`Model`}
            description={t`The id that customers request.`}
            required
            {...text('id')}
            data-autofocus
          />
        </Field>
      )}
      <div className={styles.pair}>
        <Field name={`${path}.pricing.prompt`}>
          <AmountField label={t`Input`} required {...price('input', rules.max_input_usd_per_million)} />
        </Field>
        <Field name={`${path}.pricing.completion`}>
          <AmountField label={t`Output`} required {...price('output', rules.max_output_usd_per_million)} />
        </Field>
      </div>
      <div className={styles.pair}>
        <Field name={`${path}.context_length`}>
          <TextInput
            label={t`Context`}
            description={t`Tokens in and out`}
            inputMode="numeric"
            required
            {...text('context')}
          />
        </Field>
        <Field name={`${path}.max_output_length`}>
          <TextInput
            label={t`Longest output`}
            description={t`Tokens`}
            inputMode="numeric"
            required
            {...text('maxOutput')}
          />
        </Field>
      </div>
      <Field name={`${path}.upstream_model`}>
        <TextInput
          label={t`Id at your server`}
          description={t`Empty if it is the same.`}
          placeholder={input.id}
          {...text('upstream')}
        />
      </Field>
      <details open={isMoreOpen || undefined}>
        <summary>{t`More: cached input, features, quantization`}</summary>
        <div className={styles.more}>
          <div className={styles.pair}>
            <Field name={`${path}.pricing.input_cache_read`}>
              <AmountField label={t`Input read from a cache`} placeholder={t`as input`} {...price('cacheRead')} />
            </Field>
            <Field name={`${path}.pricing.input_cache_write`}>
              <AmountField label={t`Input written to a cache`} placeholder={t`as input`} {...price('cacheWrite')} />
            </Field>
          </div>
          <Checkbox.Group
            label={t`What it can do`}
            description={
              isChat
                ? t`It answers chats. Add what else it supports.`
                : t`Only what is named here. Add chat if it answers chats too.`
            }
            value={[...input.features]}
            onChange={chosen => onChange({ ...input, features: chosen })}
          >
            <div className={styles.choices}>
              {choices.map(([value, label]) => (
                <Checkbox key={value} value={value} label={label} />
              ))}
            </div>
          </Checkbox.Group>
          <div className={styles.pair}>
            <Field name={`${path}.quantization`}>
              <Select
                label={t`Quantization`}
                description={t`How the weights are stored`}
                placeholder={t`not stated`}
                clearable
                data={Object.entries(quantizationNames).map(([value, label]) => ({ value, label }))}
                value={input.quantization === '' ? null : input.quantization}
                onChange={chosen => onChange({ ...input, quantization: chosen ?? '' })}
              />
            </Field>
            <Field name={`${path}.name`}>
              <TextInput label={t`Name`} description={t`For people`} placeholder={input.id} {...text('name')} />
            </Field>
          </div>
          <Field name={`${path}.max_concurrent`}>
            <TextInput
              label={t`Requests at once`}
              description={t`That your server takes for this model. Empty: the gateway finds out.`}
              inputMode="numeric"
              {...text('concurrent')}
            />
          </Field>
        </div>
      </details>
    </>
  )
}

function hasMoreTerms({ cacheRead, cacheWrite, quantization, name, concurrent, features }: ModelInput): boolean {
  return features.length > 0 || [cacheRead, cacheWrite, quantization, name, concurrent].some(text => text !== '')
}
