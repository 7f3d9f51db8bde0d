// Every handle given out, by address. A handle is looked up here before it is used: an unknown pointer is never dereferenced.
#pragma once

#include <memory>
#include <shared_mutex>
#include <unordered_map>

namespace lgsim {

enum class Type { context, stream, event, module, function, library, kernel, graph, node, graph_exec, pool, link };

struct Object {
  const Type type;
  explicit Object(Type t) : type(t) {}
  virtual ~Object() = default;
};

class Registry {
 public:
  void add(std::shared_ptr<Object> object) {
    std::unique_lock<std::shared_mutex> hold(mutex_);
    const void *handle = object.get();
    objects_[handle] = std::move(object);
  }

  template <class T> std::shared_ptr<T> find(const void *handle) {
    std::shared_lock<std::shared_mutex> hold(mutex_);
    auto it = objects_.find(handle);
    if (it == objects_.end() || it->second->type != T::kType) return nullptr;
    return std::static_pointer_cast<T>(it->second);
  }

  // The object, which is no handle any more; null when it was none of this type.
  template <class T> std::shared_ptr<T> remove(const void *handle) {
    std::unique_lock<std::shared_mutex> hold(mutex_);
    auto it = objects_.find(handle);
    if (it == objects_.end() || it->second->type != T::kType) return nullptr;
    auto object = std::static_pointer_cast<T>(it->second);
    objects_.erase(it);
    generation_++;
    return object;
  }

  // Moves on whenever a handle ceases to be one, so that a thread can keep what it looked up last.
  unsigned long generation() const { return __atomic_load_n(&generation_, __ATOMIC_RELAXED); }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<const void *, std::shared_ptr<Object>> objects_;
  unsigned long generation_ = 1;
};

Registry &registry();

// The address of an object as the handle type that the header gives it.
template <class H, class T> H handle_of(const std::shared_ptr<T> &object) { return reinterpret_cast<H>(object.get()); }
template <class H, class T> H handle_of(T *object) { return reinterpret_cast<H>(object); }

}  // namespace lgsim
