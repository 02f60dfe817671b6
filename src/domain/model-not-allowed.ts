import { ApiError } from './errors.ts'

/** A model that exists, for a key that may not ask for it. */
export function modelNotAllowed(modelId: string): ApiError {
  return new ApiError('model_not_allowed', {
    message: `This API key may not use the model \`${modelId}\`. GET /v1/models lists the models it may use.`,
    param: 'model',
  })
}
